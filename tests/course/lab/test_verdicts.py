"""What a measurement allows to say, from made-up times."""

import math
import random

import pytest

from course.lab import real_model
from course.lab.verdicts import (
    CANNOT_TELL,
    Ratio,
    against_prediction,
    fastest_of,
    largest,
    ratio,
    surely_largest,
    which_is_faster,
)


def test_a_ratio_is_taken_round_by_round():
    # Rounds: 2, 3 and 4 times as long.
    found = ratio({"slow": [2.0, 3.0, 8.0], "fast": [1.0, 1.0, 2.0]}, "slow", "fast")
    assert (found.low, found.middle, found.high, found.n_rounds) == (2, 3, 4, 3)
    assert str(found) == "3.00× (2.00 to 4.00 in 3 rounds)"


def test_of_five_rounds_one_that_was_disturbed_does_not_hide_the_rest():
    found = ratio({"slow": [2.0, 2.0, 2.0, 2.0, 2.0], "fast": [1.0, 1.0, 1.0, 1.0, 9.0]}, "slow", "fast")
    assert (found.low, found.middle, found.high) == (2, 2, 2) and found.is_told
    assert str(found) == "2.00× (2.00 to 2.00 in all but 2 of 5 rounds)"
    two = ratio({"slow": [2.0] * 5, "fast": [1.0, 1.0, 1.0, 9.0, 9.0]}, "slow", "fast")
    assert not two.is_told


def share_told(n_rounds, times_as_long, noise):
    """Of two thousand runs on a machine of such noise, a share of 1; the same runs every time."""
    chance, n_told = random.Random(0), 0
    for _ in range(2000):
        slow, fast = ([math.exp(chance.gauss(0, noise)) for _ in range(n_rounds)] for _ in range(2))
        n_told += ratio({"slow": [times_as_long * s for s in slow], "fast": fast}, "slow", "fast").is_told
    return n_told / 2000


@pytest.mark.parametrize("n_rounds", range(3, 16))
def test_of_equal_speeds_chance_makes_a_difference_in_one_run_of_twenty(n_rounds):
    # A limit of 5 %, and two standard errors of 2,000 runs, 2 · √(0.05 · 0.95 / 2000) = 1 %.
    assert share_told(n_rounds, 1.0, 0.05) <= 0.06


@pytest.mark.parametrize("n_rounds", range(3, 16))
def test_a_difference_well_beyond_the_noise_is_told(n_rounds):
    assert share_told(n_rounds, 1.5, 0.02) >= 0.99


@pytest.mark.parametrize("n_rounds", range(3, 10))
def test_what_is_told_does_not_depend_on_which_of_the_two_is_asked_for(n_rounds):
    chance = random.Random(n_rounds)
    for _ in range(500):
        seconds = {"a": [], "b": []}
        times_as_long = math.exp(chance.uniform(-4, 4))
        for _ in range(n_rounds):
            seconds["a"].append(times_as_long * math.exp(chance.gauss(0, 0.4)))
            seconds["b"].append(math.exp(chance.gauss(0, 0.4)))
        assert ratio(seconds, "a", "b").is_told == ratio(seconds, "b", "a").is_told, seconds


def test_a_ratio_far_from_1_is_told_though_its_rounds_are_far_apart_too():
    assert Ratio(8.45, 15.91, 17.27, 3).is_told and Ratio(1 / 17.27, 1 / 15.91, 1 / 8.45, 3).is_told
    assert not Ratio(1.05, 1.14, 1.25, 3).is_told


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_faster_one_is_named_whichever_is_asked_first(order):
    assert (
        which_is_faster({"a": [1.0, 1.0, 1.0], "b": [2.0, 3.0, 2.5]}, *order)
        == "a is 2.50× (2.00 to 3.00 in 3 rounds) as fast as b"
    )


@pytest.mark.parametrize(
    "times",
    [
        {"a": [1.0, 2.0, 1.0], "b": [2.0, 1.0, 2.0]},
        {"a": [1.0], "b": [2.0]},
        {"a": [1.0, 1.0], "b": [2.0, 2.0]},  # two rounds agree by chance in every second run
    ],
)
def test_rounds_that_contradict_each_other_and_fewer_than_three_tell_nothing(times):
    assert CANNOT_TELL in which_is_faster(times, "a", "b")


def test_the_fastest_of_many_is_named_where_every_round_parts_it_from_the_next():
    assert fastest_of({"a": [3.0] * 3, "b": [1.0, 1.1, 1.0], "c": [2.0] * 3}) == "b"


def test_no_fastest_is_named_where_a_round_says_otherwise():
    told = fastest_of({"a": [9.0, 9.0], "b": [1.0, 2.0], "c": [1.2, 1.9]})
    assert told == f"{CANNOT_TELL} (b or c: c takes 1.07× (0.95 to 1.20 in 2 rounds) as long)"


def test_the_fastest_of_one_is_refused():
    with pytest.raises(ValueError, match="seconds has 1 names"):
        fastest_of({"a": [1.0]})


def test_a_name_that_was_not_measured_is_refused_with_those_that_were():
    with pytest.raises(ValueError, match="'c' was not measured; those were a, b"):
        ratio({"a": [1.0], "b": [1.0]}, "a", "c")


def test_a_prediction_inside_the_spread_and_one_outside_are_told_apart():
    assert against_prediction([0.0015, 0.003], 0.002).endswith("within what was measured")
    assert against_prediction([0.004, 0.004, 0.004], 0.002) == (
        "predicted 2 ms, measured 4 (4 to 4): measured is 2.00 of the prediction"
    )


def test_rounds_so_far_apart_that_any_prediction_lies_between_them_confirm_none():
    said = against_prediction([0.008, 0.037, 0.057], 0.039)
    assert said == (
        "predicted 39 ms, measured 37 (8 to 57): cannot tell on this run, the longest round took 7.1 times the shortest"
    )


def test_of_rounds_far_apart_the_range_is_told_and_not_their_middle():
    assert against_prediction([0.8, 2.1, 3.4], 0.5, "s", 1).endswith(": measured is 1.60 to 6.80 of the prediction")


def test_the_largest_is_named_only_with_a_lead():
    assert largest({"a": 1.0, "b": 2.0}) == "b"
    assert largest({"a": 1.0, "b": 1.01}).startswith(CANNOT_TELL)


def test_the_largest_of_samples_is_named_only_beyond_two_standard_errors_of_the_difference():
    errors = {"a": 0.03, "b": 0.04, "c": 0.04}  # of a difference of a and b 0.05
    assert surely_largest({"a": 0.5, "b": 0.39, "c": 0.1}, errors) == "a"
    assert surely_largest({"a": 0.5, "b": 0.41, "c": 0.1}, errors) == f"{CANNOT_TELL} (a or b)"
    with pytest.raises(ValueError, match="errors has none for b"):
        surely_largest({"a": 1.0, "b": 2.0}, {"a": 0.1})


def test_without_the_real_model_a_cell_says_how_to_get_it_in_one_line(monkeypatch, capsys):
    def load(name):
        raise FileNotFoundError(f"no model {name!r} here:\n`pip install` it")

    monkeypatch.setattr(real_model, "load", load)
    real_model._loaded.cache_clear()
    assert real_model.real_model() is None
    assert capsys.readouterr().out == "left out: no model 'smollm2' here: `pip install` it\n"
    real_model._loaded.cache_clear()
