"""The verdict from given figures: goals by formula, met, missed or not to be told; a busy machine; the score."""

import math
import os
import time
from dataclasses import replace

import pytest
from capstones import MACHINE, NO_GOALS, at, served, write_load
from rich.console import Console

from course.capstone import report
from course.capstone.check import Check
from course.capstone.goals import Goals
from course.capstone.machine import Clock, Machine, bare_passes, keep, measure, stored, time_passes
from course.capstone.settings import Choices, Load, from_fields
from course.capstone.verdict import Verdict
from course.errors import CourseError
from nanolm.checkpoint import load as load_model

PART = {
    "number": "6.4",
    "part": "BlockAllocator.free",
    "whose": "yours",
    "why": "",
    "calls": {"plan": 0, "alone": 1, "tight": 2, "chosen": 3},
}
EQUAL = {"alone": (16, 16), "tight": (28, 28), "chosen": (16, 16)}


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Four requests: 6 to 9 prompt tokens, 7.5 on average, and 7 written ones."""
    return write_load(tmp_path_factory.mktemp("verdicts"), n=4)


def check(**changes):
    return replace(Check(EQUAL, [PART], [], ["0"], 0), **changes)


def verdict(load, yours, reference=None, asked=NO_GOALS, **changes):
    return Verdict(at(load, asked), check(**changes), yours, reference or [served() for _ in yours])


def test_capacity_is_what_passes_of_sixteen_write_prompts_paid_for():
    # 1 ms a token, and 0.1 ms for each of its prompt's tokens.
    assert MACHINE.capacity(20, 10) == pytest.approx(1 / (0.001 + 0.0002))


def test_goals_are_multiples_of_a_pass_of_sixteen(load):
    found = at(replace(load, rate=10.0), NO_GOALS)
    assert found.goals.ttft_seconds == pytest.approx(0.16) and found.goals.tpot_seconds == pytest.approx(0.048)
    last = found.load.arriving()[-1].seconds
    seconds = last + 0.16 + 2 * 7 * 0.048  # an average answer has 7 tokens
    assert found.goals.dollars_per_million == pytest.approx(0.10 / 3600 * seconds / 28 * 1e6)
    assert found.wanted == 70 and found.share == pytest.approx(70 / MACHINE.capacity(7.5, 7))


def test_without_a_rate_it_is_a_share_of_the_capacity(load):
    found = at(replace(load, rate=None, share=0.5), NO_GOALS)
    assert found.load.rate == float(f"{0.5 * found.capacity / 7:.2g}")
    assert found.share == pytest.approx(0.5, rel=0.05)


def test_all_at_once_there_is_no_goal_for_the_first_token_unless_it_is_asked_for(load):
    assert at(load, NO_GOALS).goals.ttft_seconds is None
    assert at(load, Goals(0.5, None, None)).goals.ttft_seconds == 0.5


def test_a_load_beyond_the_capacity_is_priced_by_the_capacity(load):
    found = at(replace(load, rate=1e4), NO_GOALS)
    seconds = 28 / found.capacity + 0.16 + 2 * 7 * 0.048
    assert found.goals.dollars_per_million == pytest.approx(0.10 / 3600 * seconds / 28 * 1e6)


def test_goals_do_not_move_with_choices_or_with_what_was_measured(load):
    slow, fast = ([served(ttft=seconds)] * 3 for seconds in (8.3, 0.01))
    assert verdict(load, slow, slow).at.goals == verdict(load, fast, fast).at.goals


def test_a_plan_at_158_percent_with_8_seconds_to_the_first_token_misses_even_if_the_reference_does_too(load):
    capacity = at(load, NO_GOALS).capacity
    overloaded = [served(ttft=8.3)] * 3
    found = verdict(replace(load, rate=1.58 * capacity / 7), overloaded, overloaded)
    assert found.goals["ttft_seconds"] == "missed" and not found.passed
    said = " ".join(found.in_words())
    assert "Missed: first token" in said and "The load is 158% of what bare passes can write" in said


@pytest.mark.parametrize(
    ("waits", "slowdown", "expected"),
    [
        ([0.04, 0.045, 0.047], 1, "met"),
        ([0.05, 0.06, 0.07], 1, "missed"),
        ([0.04, 0.05, 0.06], 1, "cannot tell on this run"),  # the rounds lie on both sides
        ([0.05, 0.06, 0.07], 2, "cannot tell on this run"),  # the control took twice as long: the machine was busy
        ([0.2, 0.2, 0.2], 2, "missed"),  # four times the goal: twice as busy does not explain that
        ([0.04, 0.04, 0.04], 0.5, "cannot tell on this run"),  # measured when it was busy, and easy now
        ([0.02, 0.02, 0.02], 0.5, "met"),
        ([0.047, 0.047, 0.047], 0.97, "met"),  # one moment differs from the next by so much
    ],
)
def test_a_goal_is_told_only_where_rounds_and_machine_allow_it(load, waits, slowdown, expected):
    found = verdict(load, [served(tpot=wait, control=slowdown * MACHINE.products) for wait in waits])
    assert found.goals["tpot_seconds"] == expected
    busy = any("times as slow as when it was measured" in line for line in found.in_words())
    assert busy == (slowdown in (0.5, 2))


def test_a_busy_machine_explains_a_queue_that_grows_with_load_over_one_less_load(load):
    half = at(replace(load, rate=0.5 * MACHINE.capacity(7.5, 7) / 7), NO_GOALS)
    assert half.allowance("tpot_seconds", 1.5) == 1.5
    # 0.5 / (1 - 0.5) is 1, and 0.75 / (1 - 0.75) is 3: a wait three times as long.
    assert half.allowance("ttft_seconds", 1.5) == pytest.approx(1.5 * 0.5 / 0.25)
    assert half.allowance("ttft_seconds", 2.5) == math.inf, "the slower machine does not keep up"
    assert half.allowance("ttft_seconds", 0.5) == 0.5


def test_the_score_is_the_price_of_tokens_that_came_in_time(load):
    on_time, late, slow = (0.1, 0.01, 10), (9.0, 0.01, 10), (0.1, 0.9, 10)
    done = served(seconds=2.0, requests=(on_time, on_time, late, slow))
    found = verdict(load, [done] * 3, asked=Goals(1.0, 0.1, None))
    dollars = 0.10 / 3600 * 2.0
    assert found.scores == [pytest.approx(dollars / 20 * 1e6)] * 3 and found.in_time == [2] * 3
    assert found.values("dollars_per_million", [done]) == [pytest.approx(dollars / 40 * 1e6)]
    assert "Score: 2.778 $ a million tokens that came in time (2 of 4 requests)." in found.in_words()


def test_where_no_request_came_in_time_the_score_is_infinite(load):
    found = verdict(load, [served(requests=[(9.0, 0.01, 10)])], asked=Goals(1.0, 1.0, None))
    assert found.scores == [math.inf] and "Score: inf $" in " ".join(found.in_words())


def test_wrong_texts_have_no_score_and_no_goals(load):
    found = verdict(load, [served()], equal=EQUAL | {"chosen": (14, 16)})
    said = " ".join(found.in_words())
    assert (
        "wrong with your choices" in said and "Score" not in said and "goals are met" not in said and not found.passed
    )


def test_one_text_of_sixteen_may_differ_and_is_mentioned(load):
    found = check(equal=EQUAL | {"chosen": (15, 16)})
    assert (
        found.is_right and "One that differs is a near tie, or a part that is wrong now and then." in found.in_words()
    )


@pytest.mark.parametrize(
    ("yours", "reference", "told"),
    [
        ([1.0, 1.1, 1.2], [1.3, 1.4, 1.5], True),
        ([1.0, 1.1, 1.35], [1.3, 1.4, 1.5], False),
        ([1.0, 1.01, 1.02], [1.03, 1.04, 1.05], False),  # apart, but by no more than the clock is worth
        ([1.0, 1.1], [1.3, 1.4], False),  # of two rounds each of the same code that happens in one run of three
    ],
)
def test_faster_than_the_reference_is_told_where_no_round_lies_among_the_other_s(load, yours, reference, told):
    found = verdict(load, [served(seconds) for seconds in yours], [served(seconds) for seconds in reference])
    (line,) = [line for line in found.in_words() if line.startswith("The whole load")]
    assert ("cannot tell on this run" in line) != told and "as long as yours" in line


def test_one_round_is_said_to_show_little(load):
    assert any("One round shows little" in line for line in verdict(load, [served()]).in_words())
    assert not any("One round" in line for line in verdict(load, [served()] * 3).in_words())


def test_blocks_given_back_that_the_cache_still_holds_are_a_mistake_too():
    assert "2 blocks were given back that the prefix cache still holds" in check(n_leaked=-2).in_words()


@pytest.mark.skipif(os.name == "nt", reason="there it is the wall's")
def test_on_one_thread_the_clock_is_the_processor_s_and_jumps_over_waits():
    clock = Clock(1)
    start = clock()
    time.sleep(0.05)
    assert clock.is_the_processor_s and clock() - start < 0.04, "it stands while others have the processor"
    clock.sleep(3.0)
    assert 3.0 <= clock() - start < 3.1
    before = clock()
    assert clock.aside(lambda: sum(range(2_000_000))) > 0.01 > clock() - before, "what is done aside does not count"
    wall = Clock(2)
    start = wall()
    wall.sleep(0.05)
    assert not wall.is_the_processor_s and wall() - start >= 0.05


def test_bare_passes_are_those_of_the_model_and_a_steady_measurement_is_kept(load, monkeypatch, tmp_path):
    monkeypatch.setattr("course.capstone.machine.cache_folder", lambda: tmp_path)
    model, _ = load_model(load.model)
    assert list(bare_passes(model)) == ["one", "sixteen", "prompt", "products"]
    assert all(5 <= len(seconds) <= 40 for seconds in time_passes(model, 1, 0.0).values())
    machine = replace(measure(model, load.model, 1), spread=1.1)
    keep(machine)
    assert stored(load.model, 1) == machine
    assert stored(load.model, 2) is None, "with other threads it is another machine"
    keep(replace(machine, one=9.0, spread=2.0))
    assert stored(load.model, 1) == machine, "one that was made on a busy machine is not kept"
    next(tmp_path.glob("*.json")).write_text("{}")
    assert stored(load.model, 1) is None


def test_settings_travel_as_fields_and_others_are_refused():
    assert from_fields(Choices, vars(Choices(slots=3))) == Choices(slots=3)
    with pytest.raises(CourseError, match="the choices must give"):
        from_fields(Choices, {"slots": 3})
    with pytest.raises(CourseError, match="the load must give"):
        from_fields(Load, vars(Load()) | {"more": 1})
    assert Choices(slots=3, prefix_cache=False).in_words() == "--slots 3 --no-prefix-cache"
    assert Choices().in_words() == "the defaults"


def test_a_machine_s_fields_are_what_is_stored():
    assert isinstance(MACHINE, Machine) and MACHINE.is_steady


def test_the_report_shows_goals_with_the_spread_of_the_rounds(load, capsys):
    found = verdict(load, [served(tpot=wait) for wait in (0.03, 0.04, 0.05)], plan=[("weights", "1 MB", "2 MB")])
    report.show(found, Console(width=150))
    printed = capsys.readouterr().out
    assert "Goals, and what was measured in 3 rounds, smallest to largest" in printed
    assert "40 (30 to 50) ms" in printed and "1 MB; the reference: 2 MB" in printed
    assert "Cache: 8 blocks of 16 positions, at most 8 in use; 2.0 requests a pass; preempted 1, evicted 3" in printed
