"""course status: what passes, what fails, what is not written, and what to do next."""

import io

from rich.console import Console

from course.grading.outcomes import Outcome
from course.grading.status import Standing, next_step, show
from course.registry import Exercise


def exercise(number, name, points=4):
    fields = {"points": points, "minutes": 10, "difficulty": 2, "tested": "t", "why": "w", "hint": "h"}
    tests = ("tests/speculative/test_acceptance.py",)
    return Exercise(number, name, "speculative.acceptance", (name,), "notebooks/a/a.ipynb", **fields, tests=tests)


def outcome(passed, unwritten=False, message="a [message] with brackets"):
    return Outcome("test", "sentence", passed, message, unwritten, ())


PASSES = Standing(exercise("4.1", "one"), [outcome(True), outcome(True)], "")
FAILS = Standing(exercise("4.2", "two"), [outcome(True), outcome(False)], "")
UNWRITTEN = Standing(exercise("5.1", "three"), [outcome(False, unwritten=True)], "")


def shown(*found):
    out = io.StringIO()
    show(list(found), Console(file=out, width=120))
    return out.getvalue()


def test_states_are_told_apart():
    assert [standing.state for standing in (PASSES, FAILS, UNWRITTEN)] == ["passes", "fails", "not written"]


def test_an_exercise_without_a_single_outcome_does_not_pass():
    assert Standing(exercise("4.1", "one"), [], "").state == "fails"


def test_each_week_has_its_points_and_the_minutes_left():
    text = shown(PASSES, FAILS, UNWRITTEN)
    assert "Week 4" in text and "Week 5" in text
    assert "6 of 8 points, about 10 minutes left" in text
    assert "fails, 1 of 2 tests" in text


def test_what_fails_comes_before_what_is_not_written_and_the_command_is_exact():
    assert "exercise 4.2 two fails: a [message] with brackets" in shown(UNWRITTEN, FAILS)
    assert next_step([PASSES, UNWRITTEN]).endswith(
        "NANOLM_IMPL=exercises python -m pytest tests/speculative/test_acceptance.py --exercise three"
    )
    assert next_step([PASSES]) == "everything passes"
