"""Tests `benchmarks/` on a checkpoint small enough for a test: do they run, and does the JSON hold what it should."""

import json
import math
import os

import pytest
import typer
from tiny_checkpoints import write_checkpoint
from typer.testing import CliRunner

from benchmarks import against, serving, speculation
from benchmarks.tools import report
from benchmarks.tools.prompts import PROBLEMS
from benchmarks.tools.turns import interval
from course.paths import ROOT
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
    parts = {"planning", "making the batch's tensors", "the model's pass", "choosing tokens", "keeping the books"}
    assert set(content["profile"]) == parts and min(content["profile"].values()) > 0
    assert content["profile"]["the model's pass"] == max(content["profile"].values())
    assert sum(content["profile"].values()) <= 1, "a part was counted twice"
    shared = content["shared_prefix"]
    # 20 prompts of 52 tokens, 32 of them (two blocks) shared: all of the first, 20 of each other.
    assert shared["without"]["prefilled_tokens"] == 20 * 52
    assert shared["with"]["prefilled_tokens"] == shared["predicted"]["prefilled_tokens"] == 52 + 19 * 20


class Racer:
    """Takes the seconds that it is told for one work after another, and keeps a list of whose turn it was."""

    def __init__(self, name, seconds, turns):
        self.name, self.seconds, self.turns = name, seconds, turns

    def __call__(self, work):
        self.turns.append((self.name, work))
        return self.seconds[work]


def raced(rounds):
    turns = []
    ours = Racer("ours", {work: 1.0 + i for i, work in enumerate(against.WORKS)}, turns)
    theirs = Racer("theirs", {work: 3.0 + 3 * i for i, work in enumerate(against.WORKS)}, turns)
    return against.race(ours, theirs, rounds), turns


def test_a_race_s_ratio_is_their_time_over_ours():
    for i, row in enumerate(raced(2)[0]):
        assert (row["ours"], row["theirs"]) == (1.0 + i, 3.0 + 3 * i)
        assert row["ratio"] != pytest.approx(1 / 3), "upside down: above 1 this checkout is the faster"
        assert row["ratio"] == row["low"] == row["high"] == 3.0


def test_a_race_warms_both_up_and_lets_each_go_first_every_other_round():
    rows, turns = raced(3)
    assert [row["work"] for row in rows] == list(against.WORKS)
    first = [name for name, work in turns if work == against.WORKS[0]]
    assert first[:2] == ["ours", "theirs"], "a turn of each that does not count"
    assert first[2:] == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]


def test_the_interval_of_15_ratios_is_the_fourth_from_either_end():
    # Of 15 tosses 3 or fewer are heads with probability (1 + 15 + 105 + 455) / 32,768 = 1.76 %: 96.5 % lie between.
    assert interval([float(rank) for rank in range(15, 0, -1)]) == (4.0, 12.0)


@pytest.mark.parametrize("n", range(6, 60))
def test_the_interval_covers_the_median_in_95_of_100_races_and_is_as_narrow_as_that_allows(n):
    low, high = interval(list(range(1, n + 1)))
    assert low + high == n + 1, "as many are cut off at one end as at the other"

    def coverage(rank):
        return 1 - 2 * sum(math.comb(n, i) for i in range(rank)) / 2**n

    assert coverage(low + 1) < 0.95 <= coverage(low)


@pytest.mark.parametrize("n", range(1, 6))
def test_the_interval_of_fewer_than_six_ratios_is_all_of_them(n):
    assert interval(list(range(1, n + 1))) == (1, n)


def test_a_checkout_races_against_itself_in_every_work(tmp_path):
    for name, n_layers in (("target", 2), ("draft", 1)):
        write_checkpoint(tmp_path / name, n_layers=n_layers)
    app = typer.Typer()
    app.command()(against.main)
    options = ["--model", tmp_path / "target", "--draft", tmp_path / "draft", "--results", tmp_path, "--quick"]
    result = CliRunner().invoke(app, [str(option) for option in (ROOT, *options)])
    assert result.exit_code == 0, result.output
    content = json.loads((tmp_path / "against.json").read_text(encoding="utf-8"))
    assert content["setting"]["ours"] == content["setting"]["theirs"] == str(ROOT)
    assert [row["work"] for row in content["rows"]] == list(against.WORKS)
    for row in content["rows"]:
        assert row["ours"] > 0 and row["ratio"] == pytest.approx(row["theirs"] / row["ours"])
        assert row["work"] in result.stdout
    assert content["rows"][-1]["ratio"] == 1, "equal code asks torch for as many operations"


def test_a_race_is_refused_where_the_other_folder_is_not_what_would_be_imported(tmp_path, monkeypatch):
    # The folder holds no nanolm, so Python would find this one's and race it against itself.
    write_checkpoint(tmp_path / "target")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with pytest.raises(ValueError, match="imports"):
        against.started(tmp_path, str(tmp_path / "target"), str(tmp_path / "target"))
