"""Tests `nanolm/cli/bench.py`: what `nanolm bench` prints, writes and draws, on a model small enough for a test."""

import json
import re
from importlib.util import find_spec

import pytest
from tiny_checkpoints import write_checkpoint
from typer.testing import CliRunner

from nanolm.cli import app
from nanolm.cli import bench as cli_bench
from nanolm.workload import Arrival, Trace, all_at_once, save_trace


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a checkpoint and a trace of four requests."""
    folder = tmp_path_factory.mktemp("bench")
    write_checkpoint(folder / "model")
    requests = [Arrival(0.0, 4, n, (n, 20, 30, 40)) for n in (3, 6, 2, 5)]
    save_trace(all_at_once(requests), folder / "trace.jsonl")
    return folder


def bench(files, *options):
    arguments = ["bench", files / "model", "--trace", files / "trace.jsonl", "--threads", 1, "--slots", 2, *options]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_bench_prints_every_way_and_says_that_all_wrote_the_same(files):
    result = bench(files, "--no-transformers")
    assert result.exit_code == 0, result.output
    for name in ("engine", "static batches", "one at a time"):
        assert name in result.stdout
    assert "4 requests, 16 new tokens, all at once" in result.stdout
    assert "wrote the same tokens" in result.stdout
    assert "transformers" not in result.stdout


def test_bench_chooses_threads_and_says_so_where_none_are_asked_for(files):
    arguments = ["bench", files / "model", "--trace", files / "trace.jsonl", "--slots", 2, "--no-transformers"]
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0 and re.search(r"threads: \d threads? \(a pass takes", result.output), result.output


def test_bench_measures_transformers_on_the_same_trace(files):
    result = bench(files, "--json")
    assert result.exit_code == 0, result.output
    ways = [row["way"] for row in json.loads(result.stdout)]
    assert ways == ["engine", "static batches", "one at a time", "transformers"]


def without(monkeypatch, package):
    """Let the command find every package but this one."""
    monkeypatch.setattr(cli_bench, "find_spec", lambda name: None if name == package else find_spec(name))


def test_bench_says_that_transformers_is_not_installed(files, monkeypatch):
    without(monkeypatch, "transformers")
    result = bench(files)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "transformers is not measured; not installed: transformers."


def test_bench_of_a_gguf_file_says_what_transformers_would_need_for_it(files, monkeypatch, tmp_path):
    pytest.importorskip("gguf", reason="the library gguf is not installed")
    from gguf_twins import write_twin

    without(monkeypatch, "accelerate")
    path, trace = write_twin(tmp_path / "twin.gguf").path, files / "trace.jsonl"
    result = CliRunner().invoke(app, ["bench", str(path), "--trace", str(trace), "--threads", "1", "--slots", "2"])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "transformers is not measured; not installed: accelerate."
    assert "4 requests, 16 new tokens" in result.stdout and "wrote the same tokens" in result.stdout


def test_bench_writes_and_draws_a_point_for_every_rate(files):
    result = bench(files, "--no-transformers", "--rate", 50, "--rate", 200, "--json", "--plot", files / "r.png")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["requests_per_second"] for row in rows] == [50.0] * 3 + [200.0] * 3
    assert all(row["tokens_per_second"] > 0 and row["ttft_seconds_p95"] >= row["ttft_seconds_p50"] for row in rows)
    assert (files / "r.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "options, said",
    [
        (("--rate", 0), "rate is 0"),
        (("--slots", 0), "max_running is 0"),
        (("--trace", "no-such-file.jsonl"), "no-such-file.jsonl"),
    ],
)
def test_bench_refuses_in_one_line(files, options, said):
    result = bench(files, "--no-transformers", *options)
    assert result.exit_code == 2
    assert said in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_bench_refuses_a_request_that_is_longer_than_the_context(files, tmp_path):
    long = Trace((Arrival(0.0, 1, 2000, (1,)),))
    save_trace(long, tmp_path / "long.jsonl")
    result = bench(files, "--no-transformers", "--trace", tmp_path / "long.jsonl")
    assert result.exit_code == 2 and "context" in result.stderr
