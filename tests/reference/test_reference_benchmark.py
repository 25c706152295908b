"""Tests `benchmarks/decode.py` on a small checkpoint: it runs, and the JSON holds what it should."""

import json

import pytest
import torch
import typer
from tiny_checkpoints import write_checkpoint
from typer.testing import CliRunner

import nanolm
from benchmarks import decode


@pytest.fixture(scope="module")
def figures(transformers, tmp_path_factory):
    """The JSON of a quick run, and what it printed."""
    folder = tmp_path_factory.mktemp("benchmark")
    write_checkpoint(folder)
    app = typer.Typer()
    app.command()(decode.main)
    result = CliRunner().invoke(app, ["--model", str(folder), "--results", str(folder), "--quick"])
    assert result.exit_code == 0, result.output
    return json.loads((folder / "decode.json").read_text(encoding="utf-8")), result.stdout


def test_the_decode_benchmark_measures_both_libraries_on_the_same_text(figures):
    content, printed = figures
    assert set(content) == {"machine", "setting", "counted", "predicted", "same_text", "rows"}
    assert content["same_text"] is True and "The texts are the same." in printed
    assert [row["what"] for row in content["rows"]] == [
        "decode, 16 tokens",
        "prefill, 32 tokens",
        "prefill, 128 tokens",
    ]
    for row in content["rows"]:
        ours, theirs = row["nanolm_tokens_per_second"], row["transformers_tokens_per_second"]
        assert ours > 0 and theirs > 0 and row["ratio"] == pytest.approx(ours / theirs)
        assert len(row["seconds"]["nanolm"]) == content["setting"]["repetitions"]
    assert content["machine"]["processor"] in printed and content["machine"]["transformers"] in printed


def test_the_decode_benchmark_counts_bytes_and_operations_of_a_step(tmp_path):
    write_checkpoint(tmp_path)
    model, _ = nanolm.load(tmp_path)
    counted = decode.count(model, tmp_path, n_cached=40)
    # 3 layers of (4 + 2·2)·6·20 + 4·6·20 + 3·20·10 = 2,040, and a head of 290·20: 11,920 numbers of 4 bytes.
    assert counted["weight_bytes"] == 47_680
    # 2·3 layers·2 heads·6 = 72 numbers a position, 4 bytes each, 40 positions.
    assert counted["cache_bytes"] == 11_520
    # Two operations a weight; q·k and p·v take two each for 3 layers·4 heads·6 numbers·40 positions = 2,880.
    assert counted["flops"] == 2 * 11_920 + 4 * 2_880
    assert counted["torch_operations"] > 3 * 10


def test_the_bounds_are_times_that_a_machine_can_have(tmp_path):
    write_checkpoint(tmp_path)
    model, _ = nanolm.load(tmp_path)
    bounds = decode.predict(decode.count(model, tmp_path, n_cached=40))
    assert 1e8 < bounds["bandwidth_bytes_per_second"] < 1e14
    assert 1e8 < bounds["flops_per_second"] < 1e14
    assert 1e-8 < bounds["operation_seconds"] < 1e-3
    assert torch.get_num_threads() == 1
