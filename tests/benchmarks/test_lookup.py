"""Tests `benchmarks.lookup` on a chat model small enough for a test."""

import json
import math

import typer
from gguf_twins import write_twin
from typer.testing import CliRunner

from benchmarks import lookup


def test_the_look_up_benchmark_measures_each_kind_of_prompt_and_writes_the_plain_text(tmp_path):
    model = write_twin(tmp_path / "tiny.gguf", llama__context_length=2048).path
    app = typer.Typer()
    app.command()(lookup.main)
    result = CliRunner().invoke(app, ["--quick", "--model", str(model), "--results", str(tmp_path)])
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "lookup.json").read_text(encoding="utf-8"))
    assert [row["kind"] for row in figures["rows"]] == ["copying", "code", "free text"]
    for row in figures["rows"]:
        assert set(row["tokens_per_second"]) == {"plain", "look-up"} and row["ratio"] > 0
        assert row["same_text"], "greedy, a draft changes no token"
        assert row["acceptance_rate"] is None or 0 <= row["acceptance_rate"] <= 1
        assert row["kind"] in result.stdout
    assert all(math.isfinite(row["ratio"]) for row in figures["rows"])
