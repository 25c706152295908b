"""Tests the benchmarks of quantization on a checkpoint small enough for a test: do they run, is the JSON right?"""

import json
from unittest.mock import patch

import typer
from laptop import LAPTOP
from tiny_checkpoints import write_checkpoint
from tiny_models import tiny_model
from typer.testing import CliRunner

from benchmarks import prediction, quantization_quality, quantized_decode, quantized_linear
from nanolm.model import NanoLM


def run(benchmark, folder, *options):
    """The JSON of a quick run, and what it printed."""
    app = typer.Typer()
    app.command()(benchmark.main)
    arguments = ["--quick", "--threads", "1", "--results", folder, *options]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    (file,) = folder.glob("*.json")
    return json.loads(file.read_text(encoding="utf-8")), result.stdout


def checkpoint(folder):
    return write_checkpoint(folder / "target", d_model=32, n_heads=4, head_dim=8, d_ff=32)


def test_the_linear_benchmark_measures_every_way_against_float32(tmp_path):
    figures, printed = run(quantized_linear, tmp_path, "--rows", 128, "--columns", 256)
    ways = {row["way"]: row for row in figures["rows"]}
    assert ways["float32 F.linear"]["times_as_fast"] == {"1": 1.0, "4": 1.0}
    assert ways["float32 F.linear"]["output_error"] == 0
    int8 = ways["int8 QuantizedLinear"]
    assert int8["bytes"] == 128 * 256 + 128 * 2 and 0 < int8["output_error"] < 0.02
    assert f"{int8['times_as_fast']['1']:.2f}" in printed
    for row in figures["rows"]:
        assert row["output_error"] < 0.2 and row["seconds"]["1"] > 0


def test_the_decoding_benchmark_measures_both_models(tmp_path):
    figures, printed = run(quantized_decode, tmp_path, "--model", checkpoint(tmp_path))
    assert len(figures["rows"]) == 2 * len(quantized_decode.VARIANTS)
    large = {row["weights"]: row["bytes"] for row in figures["rows"] if row["model"] == "random, large"}
    floats, compiled, bfloat16, int8, int4 = (large[name] for name in quantized_decode.VARIANTS)
    assert floats == compiled == 2 * bfloat16 and bfloat16 > int8 > int4
    assert all(row["tokens_per_second"] > 0 and row["times_as_fast"] > 0 for row in figures["rows"])
    assert all(row["weights"] in printed for row in figures["rows"])


def test_the_prediction_benchmark_says_what_it_predicted_before_it_measures(tmp_path, monkeypatch):
    monkeypatch.setattr(prediction, "calibrate", lambda device, refresh: LAPTOP)
    figures, printed = run(prediction, tmp_path)
    kinds = ("float32", "bfloat16", "int8", "int4")
    expected = [f"{model}, {kind}" for model in ("target", "random, large") for kind in kinds]
    assert [row["model"] for row in figures["rows"]] == expected
    for row in figures["rows"]:
        assert row["ratio"] == row["tokens_per_second"] / row["predicted_tokens_per_second"]
        assert f"{row['predicted_tokens_per_second']:,.0f}" in printed and f"{row['ratio']:.2f}" in printed
    sizes = [row["bytes"] for row in figures["rows"]]
    assert sizes[:4] == sorted(sizes[:4], reverse=True) and sizes[4:] == sorted(sizes[4:], reverse=True)


def test_the_prediction_benchmark_times_passes_and_leaves_the_cache_as_it_was():
    model, lengths = tiny_model(max_positions=200), []
    run_passes = prediction._passes(model, 3)
    with patch.object(NanoLM, "forward", autospec=True, side_effect=lambda m, t, cache: lengths.append(cache.length)):
        run_passes()
        run_passes()
    assert lengths == [64, 65, 66] * 2


def test_the_quality_benchmark_measures_every_case(tmp_path):
    figures, printed = run(quantization_quality, tmp_path, "--model", checkpoint(tmp_path))
    names = ["float32", "bfloat16", "8 row plain", "3 row plain", "3 row gptq", "3 row awq"]
    assert [row["weights"] for row in figures["rows"]] == names
    assert [row["bits_per_weight"] for row in figures["rows"][:2]] == [32, 16]
    for row in figures["rows"]:
        assert row["weights"] in printed
        assert row["bits_per_byte"]["problems"] > 0 and 0 <= row["accuracy"]["all"] <= 1
