"""course capstone: one's own engine serves a trace, and the report says whose parts did the work."""

import shutil

import pytest
from answers import solve
from tiny_checkpoints import write_checkpoint
from typer.testing import CliRunner

from course.capstone.capstone import Verdict, capstone, draw, in_words
from course.cli import app
from course.errors import CourseError
from course.paths import read, write
from nanolm.workload import Arrival, all_at_once, save_trace

SAMPLING = ["SamplingParams.probs", "temperature_probs", "top_k_filter", "top_p_filter"]
FILTERS = "sampling/filters.py"
NO_TARGETS = {"ttft_seconds": 1e3, "tpot_seconds": 1e3, "dollars_per_million": 1e9}  # met by everything


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """A model and a trace that take no time."""
    folder = tmp_path_factory.mktemp("capstone")
    write_checkpoint(folder / "model")
    save_trace(all_at_once(Arrival(0.0, 4, 5, (n, 20, 30, 40)) for n in range(3, 11)), folder / "trace.jsonl")
    return folder


@pytest.fixture
def answers(untouched, tmp_path):
    """A student's folder: nothing written but how tokens are drawn, which is the reference's text."""
    shutil.copytree(untouched, tmp_path / "answers")
    solve(tmp_path / "answers", FILTERS, "sampling/params.py")
    return tmp_path / "answers"


def options(load, impl, **changes):
    return {
        "impl": str(impl),
        "model": str(load / "model"),
        "trace": str(load / "trace.jsonl"),
        "requests": None,
        "rate": 0,
        "engine": {"max_running": 4, "n_blocks": 32},
        "weight_bits": 32,
        "temperature": 0.8,
        "top_k": 50,
        "top_p": 0.95,
        "dollars_per_hour": 0.1,
        "threads": 1,
        **changes,
    }


def whose(verdict):
    return {part["part"]: part["whose"] for part in verdict.parts}


def test_capstone_with_half_of_it_written_says_which_parts_are_whose(load, answers):
    verdict = capstone(options(load, answers), NO_TARGETS, rounds=1)
    found = whose(verdict)
    assert {name for name, owner in found.items() if owner == "yours"} == set(SAMPLING)
    others = [part for part in verdict.parts if part["whose"] == "reference"]
    assert others and all(part["why"] == "not written" for part in others)
    assert (verdict.n_equal, verdict.n_texts) == (8, 8)
    assert all(part["calls"] > 0 for part in verdict.parts), "a part that did no work is not in the report"
    said = in_words(verdict)
    assert f"4 of the {len(found)} parts that did the work are yours; the reference stood in" in said
    assert "8 of 8 texts equal" in said and "All targets are met." in said


def test_capstone_with_the_reference_bodies_pasted_is_all_ones_own(load, untouched, tmp_path):
    shutil.copytree(untouched, tmp_path / "answers")
    solve(tmp_path / "answers")
    verdict = capstone(options(load, tmp_path / "answers"), NO_TARGETS, rounds=1)
    assert set(whose(verdict).values()) == {"yours"}
    assert set(SAMPLING) <= set(whose(verdict))
    assert f"All {len(verdict.parts)} parts that did the work are yours." in in_words(verdict)
    assert verdict.n_equal == 8


def test_capstone_finds_texts_that_a_wrong_part_has_changed(load, answers):
    wrong = read(answers / FILTERS).replace("kept = probs.scatter(-1, order[..., k:], 0.0)", "kept = probs.flip(-1)")
    write(answers / FILTERS, wrong)
    verdict = capstone(options(load, answers), NO_TARGETS, rounds=1)
    assert not verdict.is_right
    assert "a part is wrong, so the speed counts for nothing" in in_words(verdict)


def test_capstone_says_where_a_part_broke(load, answers):
    broken = read(answers / FILTERS).replace("    check_top_k(k)\n    if k >=", "    1 / 0\n    if k >=")
    write(answers / FILTERS, broken)
    with pytest.raises(CourseError) as error:
        capstone(options(load, answers), NO_TARGETS, rounds=1)
    assert "ZeroDivisionError" in str(error.value)
    assert f"({FILTERS}, line" in str(error.value) and "in top_k_filter" in str(error.value)


@pytest.mark.slow  # waits for the time limit
def test_capstone_ends_a_part_that_loops_for_ever(load, answers):
    endless = read(answers / FILTERS).replace("    check_top_k(k)\n    if k >=", "    while True: pass\n    if k >=")
    write(answers / FILTERS, endless)
    with pytest.raises(CourseError, match="not done after 60 seconds"):
        capstone(options(load, answers), NO_TARGETS, rounds=1, seconds=60)


def test_the_command_with_nothing_written_says_so_and_exits_with_1_when_a_target_is_missed(load, untouched):
    arguments = ["--impl", untouched, "--model", load / "model", "--trace", load / "trace.jsonl", "--rate", 0]
    arguments += ["--rounds", 1, "--threads", 1, "--ttft-ms", 1e-6, "--plot", load / "plot.png"]
    result = CliRunner().invoke(app, ["capstone", *map(str, arguments)])
    assert result.exit_code == 1, result.output
    assert "None of the " in result.stdout, "with nothing written it was the reference against itself"
    assert "missed" in result.stdout and "Missed: first token" in result.stdout
    assert (load / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_texts_are_compared_with_all_requests_at_once_so_that_the_clock_cannot_change_them(load, untouched):
    # The load comes 200 a second; what runs together then depends on the machine. Of nothing written all must be equal.
    choices = {"max_running": 4, "n_blocks": 32, "cache_kind": "int8", "draft": "prompt-lookup"}
    verdict = capstone(options(load, untouched, rate=200, engine=choices, weight_bits=8), NO_TARGETS, rounds=1)
    assert (verdict.n_equal, verdict.n_texts) == (8, 8)


def test_a_verdict_says_when_its_times_mean_little():
    slow = {"ttft_seconds": 0.2, "tpot_seconds": 0.01, "dollars_per_million": 0.5, "tokens_per_second": 100.0}
    fast = slow | {"tokens_per_second": 130.0}
    once = Verdict(fast, slow, NO_TARGETS, n_equal=8, n_texts=8, parts=[], rounds=1)
    assert "1.30 times the reference's. The same code ran twice" in in_words(once)
    assert "One round shows little" in in_words(once)
    own = {"number": "3.1", "part": "temperature_probs", "whose": "yours", "why": "", "calls": 1}
    three = Verdict(fast, slow, NO_TARGETS, n_equal=8, n_texts=8, parts=[own], rounds=3)
    assert "The same code" not in in_words(three) and "One round" not in in_words(three)


def test_a_verdict_compares_each_measure_with_its_target(tmp_path):
    figures = {"ttft_seconds": 0.2, "tpot_seconds": 0.01, "dollars_per_million": 0.5, "tokens_per_second": 100.0}
    targets = {"ttft_seconds": 0.3, "tpot_seconds": 0.01, "dollars_per_million": 0.4}
    verdict = Verdict(figures, figures, targets, n_equal=57, n_texts=64, parts=[], rounds=3)
    assert verdict.met == {"ttft_seconds": True, "tpot_seconds": True, "dollars_per_million": False}
    assert not verdict.is_right, "57 of 64 are 89 %, below the nine tenths that near ties explain"
    draw(verdict, tmp_path / "plot.svg")
    assert "share of the target" in read(tmp_path / "plot.svg") or (tmp_path / "plot.svg").stat().st_size > 1000
