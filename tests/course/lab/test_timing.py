"""Timing in turns."""

import pytest

from course.lab.timing import rounds_allowed, side_by_side, take_turns


@pytest.fixture(autouse=True)
def _no_limit(monkeypatch):
    monkeypatch.delenv("NANOLM_ROUNDS", raising=False)


def calls_of(n_rounds):
    """Take turns, and return the order of the calls and how many times came back of each."""
    order = []
    seconds = take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, n_rounds)
    return "".join(order), {name: len(times) for name, times in seconds.items()}


def test_all_take_turns_after_a_round_that_does_not_count():
    assert calls_of(3) == ("abababab", {"a": 3, "b": 3})


def test_side_by_side_gives_a_median_of_each():
    assert set(side_by_side({"a": int, "b": str}, 3)) == {"a", "b"}


def test_the_environment_can_ask_for_fewer_rounds_and_never_for_more(monkeypatch):
    monkeypatch.setenv("NANOLM_ROUNDS", "2")
    assert calls_of(5) == ("ababab", {"a": 2, "b": 2})
    assert calls_of(1) == ("abab", {"a": 1, "b": 1})


def test_a_lesson_that_measures_by_itself_asks_how_many_rounds_it_may_take(monkeypatch):
    assert rounds_allowed(6) == 6
    monkeypatch.setenv("NANOLM_ROUNDS", "2")
    assert (rounds_allowed(6), rounds_allowed(1)) == (2, 1)


def test_with_one_round_asked_for_by_the_environment_each_call_runs_once(monkeypatch):
    monkeypatch.setenv("NANOLM_ROUNDS", "1")
    assert calls_of(5) == ("ab", {"a": 1, "b": 1})


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", ""])
def test_a_number_of_rounds_that_is_none_is_refused(monkeypatch, value):
    monkeypatch.setenv("NANOLM_ROUNDS", value)
    with pytest.raises(ValueError, match="NANOLM_ROUNDS"):
        calls_of(3)


def test_no_round_is_refused():
    with pytest.raises(ValueError, match="repeats is 0"):
        calls_of(0)
