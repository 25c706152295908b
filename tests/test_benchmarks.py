"""Tests `benchmarks/` on a checkpoint small enough for a test: do they run, and does the JSON hold what it should."""

import json

import pytest
import typer
from tiny_checkpoints import write_checkpoint
from typer.testing import CliRunner

from benchmarks import report, serving, speculation
from benchmarks.prompts import PROBLEMS
from nanolm.speculative import expected_tokens_per_round


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """The JSON of a quick run of benchmarks.speculation, and what it printed."""
    folder = tmp_path_factory.mktemp("benchmark")
    for name, n_layers in (("target", 2), ("draft", 1)):
        write_checkpoint(folder / name, n_layers=n_layers)
    app = typer.Typer()
    app.command()(speculation.main)
    options = ["--target", folder / "target", "--draft", folder / "draft", "--results", folder, "--quick"]
    result = CliRunner().invoke(app, [str(option) for option in options])
    assert result.exit_code == 0, result.output
    return json.loads((folder / "speculation.json").read_text(encoding="utf-8")), result.stdout


def test_the_speculation_benchmark_names_its_machine_and_setting(figures):
    content, printed = figures
    assert set(content) == {"machine", "setting", "pass_seconds", "plain_tokens_per_second", "rows"}
    assert content["machine"]["threads"] == 1
    assert content["machine"]["processor"] and content["machine"]["torch"]
    assert content["machine"]["processor"] in printed
    assert content["setting"]["prompts"] == {"plays": 1, "problems": 1}


def test_the_speculation_benchmark_measures_every_method(figures):
    content, printed = figures
    assert [(row["draft"], row["gamma"]) for row in content["rows"]] == [
        ("model", 1),
        ("model", 4),
        ("look-up", 2),
        ("look-up", 4),
    ]
    for row in content["rows"]:
        assert row["speedup"] > 0 and row["speedup_plays"] > 0 and row["speedup_problems"] > 0
        assert 1 <= row["tokens_per_target_pass"] <= row["gamma"] + 1
        assert f"{row['speedup']:.2f}" in printed
    assert content["plain_tokens_per_second"]["1.0"] > 0


def test_the_speculation_benchmark_predicts_from_the_acceptance_and_costs_it_measured(figures):
    content, _ = figures
    costs = content["pass_seconds"]
    row = content["rows"][1]
    c, v = costs["draft 1"] / costs["target 1"], costs["target 5"] / costs["target 1"]
    tokens = expected_tokens_per_round(row["acceptance_rate"], 4)
    assert row["formula"] == pytest.approx(tokens / (1 + 4 * c))
    assert row["formula_with_measured_verification"] == pytest.approx(tokens / (v + 4 * c))
    assert "formula" not in content["rows"][2], "a look-up drafts as many tokens as it finds"


def test_a_benchmark_and_the_model_card_leave_each_other_s_sections_alone(tmp_path):
    from training.card import replace_section

    card = tmp_path / "README.md"
    sections = ("figures", "speed", "speculation")
    card.write_text("# A\n" + "".join(f"<!-- {name} -->\n<!-- /{name} -->\ntext\n" for name in sections), "utf-8")
    report.write_section("speed", ["a note"], ["what", "n"], [["x", "1"]], card)
    report.write_section("speculation", ["another"], ["what", "n"], [["y", "2"]], card)
    card.write_text(replace_section(card.read_text("utf-8"), "figures", "of the card"), "utf-8")
    report.write_section("speed", ["a newer note"], ["what", "n"], [["x", "3"]], card)
    text = card.read_text("utf-8")
    for kept in ("# A\n", "of the card", "a newer note", "| x | 3 |", "another", "| y | 2 |"):
        assert text.count(kept) == 1
    assert text.count("text\n") == 3 and "a note" not in text


@pytest.mark.parametrize("name", ["speed", "speculation"])
def test_the_model_card_has_a_place_for_each_benchmark(name):
    card = report.CARD.read_text("utf-8")
    assert card.count(f"<!-- {name} -->") == card.count(f"<!-- /{name} -->") == 1


def test_the_problems_of_the_speculation_benchmark_are_held_out_ones():
    held_out = json.loads((report.CARD.parent / "problems.json").read_text("utf-8"))
    assert set(PROBLEMS) <= {problem["prompt"] for problem in held_out}


def test_the_serving_benchmark_measures_every_way_and_counts_what_a_shared_prefix_spares(tmp_path):
    write_checkpoint(tmp_path / "model", vocab_size=1024)  # the shipped trace's ids go to 1023
    app = typer.Typer()
    app.command()(serving.main)
    options = ["--model", tmp_path / "model", "--results", tmp_path, "--threads", 1, "--quick"]
    result = CliRunner().invoke(app, [str(option) for option in options])
    assert result.exit_code == 0, result.output
    content = json.loads((tmp_path / "serving.json").read_text(encoding="utf-8"))
    assert [row["way"] for row in content["rows"]] == ["engine", "static batches", "one at a time"]
    assert all(row["tokens_per_second"] > 0 and row["same_tokens"] for row in content["rows"])
    assert 0 < content["own_share"] < 1
    assert 0 < sum(content["profile"].values()) <= 1
    shared = content["shared_prefix"]
    # 20 prompts of 52 tokens, 32 of them (two blocks) shared: all of the first, 20 of each other.
    assert shared["without"]["prefilled_tokens"] == 20 * 52
    assert shared["with"]["prefilled_tokens"] == shared["predicted"]["prefilled_tokens"] == 52 + 19 * 20
