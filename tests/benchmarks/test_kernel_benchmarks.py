"""Tests the benchmarks that need a GPU where there is none: what they say then, and the parts that run anywhere."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import typer
from tiny_models import tiny_model
from typer.testing import CliRunner

from benchmarks import cuda_graphs
from benchmarks.kernels import __main__ as kernels
from benchmarks.kernels.cases import Maker, to_check

ROOT = Path(__file__).resolve().parents[2]
UTF8 = {"PYTHONIOENCODING": "utf-8"}


@pytest.mark.parametrize("benchmark", [kernels, cuda_graphs])
def test_without_a_gpu_a_benchmark_says_what_is_needed_and_fails(benchmark, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    app = typer.Typer()
    app.command()(benchmark.main)
    result = CliRunner().invoke(app, ["--results", str(tmp_path)])
    assert result.exit_code == 1
    assert (
        "no CUDA device" in result.stdout
        and f"python -m {benchmark.__name__.removesuffix('.__main__')}" in result.stdout
    )
    assert not list(tmp_path.iterdir()), "no figures"


@pytest.mark.skipif(find_spec("triton") is None, reason="NO KERNEL IS CHECKED: no triton (Linux: the extra kernels)")
def test_the_kernel_benchmark_checks_every_kernel_under_the_interpreter(tmp_path):
    command = [sys.executable, "-m", "benchmarks.kernels", "--interpret", "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", env=os.environ | UTF8)
    assert done.returncode == 0, done.stdout + done.stderr
    checks = json.loads((tmp_path / "kernels_interpreted.json").read_text(encoding="utf-8"))["checks"]
    assert {check["kernel"] for check in checks} == {"prefill", "decode", "int8", "int4", "experts"}
    assert all(check["right"] and check["error"] <= check["allowed"] for check in checks)


def test_a_wrong_kernel_fails_its_check():
    case, *_ = to_check(Maker("cpu", torch.float32, poisoned=True))
    right = case.exact().float()
    case.run = lambda backend: right
    assert kernels.check(case)["right"]
    case.run = lambda backend: right + 1e-3
    assert not kernels.check(case)["right"]
    case.run = lambda backend: right * torch.nan
    assert not kernels.check(case)["right"], "NaN is what poison turns into"
    case.run = lambda backend: right
    case.inputs[0][0].fill_(0)
    assert not kernels.check(case)["right"], "an input, or the poison around it, was overwritten"


def test_the_cases_know_what_is_right_without_nanolm():
    for case in to_check(Maker("cpu", torch.float64, poisoned=True)):
        assert torch.allclose(case.run("torch"), case.exact(), rtol=0, atol=1e-9), f"{case.kernel} {case.numbers}"


def test_the_library_that_a_kernel_is_raced_against_computes_the_same():
    for case in to_check(Maker("cpu", torch.float64, poisoned=False)):
        (library,) = case.library.values()
        if case.kernel != "experts":  # where it is one expert's product: the same work, another result
            exact = case.exact()
            assert torch.allclose(library().reshape(exact.shape), exact, rtol=0, atol=1e-9), case.kernel


def test_the_graph_benchmark_compares_fixed_buffers_with_the_plain_step(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "PROMPT_TOKENS", 4)
    monkeypatch.setattr(cuda_graphs, "CAPACITY", 10)
    monkeypatch.setitem(cuda_graphs.ALLOWED, torch.float64, 1e-9)
    rows = cuda_graphs.compare("tiny", tiny_model(), False, 3, 1)
    assert [row["batch_size"] for row in rows] == list(cuda_graphs.BATCH_SIZES)
    assert all(row["right"] and row["seconds"]["plain"] > 0 for row in rows)
