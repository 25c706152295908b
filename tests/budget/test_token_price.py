"""Grades `pricing`: the price of a written token, and which settings are worth it. Figures are derived by hand."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from named import assert_number
from refusal import assert_refuses

from course.grading.seeds import fresh
from nanolm.budget import pricing

NAN, INF = float("nan"), float("inf")
law = settings(max_examples=50)


# --- cost_per_million --------------------------------------------------------------------------------------------


@pytest.mark.exercise("cost_per_million")
def test_cost_per_million_shares_the_hour_among_all_tokens_of_the_batch(impl):
    # 2 dollars / 3,600 s · 0.018 s / 10 tokens · 10⁶ = 1 dollar.
    wrong = {
        "dollars an hour taken for dollars a second": 3600.0,
        "dollars an hour taken for dollars a minute: an hour has 3,600 seconds": 60.0,
        "upside down: the dollars of an hour are divided by its millions of tokens": 4.0,
        "batch forgotten: each step writes one token for every sequence": 10.0,
        "multiplied by the batch: its sequences share the price of the step": 100.0,
        "the price of a token, not of a million": 1e-6,
        "the price of a thousand tokens, not of a million": 1e-3,
        "tokens of an hour, without their price": 0.5,
    }
    assert_number(impl.cost_per_million(0.018, 10, 2.0), 1.0, wrong, "2 / 3,600 · 0.018 / 10 · 10⁶")


@pytest.mark.exercise("cost_per_million")
@pytest.mark.parametrize(
    ("batch_size", "step_ms", "dollars"),
    # 3 dollars / 3,600 s · step / batch · 10⁶: at batch 1, 8.333·10⁻⁴ · 5.1146·10⁻³ · 10⁶ = 4.26.
    # The floor that a growing batch approaches: 0.3205 ms for a sequence's cache alone; with its arithmetic 0.3357 ms.
    [
        *[(1, 5.1146, 4.26), (8, 7.358, 0.77), (16, 9.922, 0.52), (32, 15.05, 0.39), (48, 20.18, 0.35)],
        *[(1, 0.32052, 0.27), (1, 0.33569, 0.28)],
    ],
)
def test_cost_per_million_of_an_h100(impl, batch_size, step_ms, dollars):
    got = impl.cost_per_million(step_ms / 1e3, batch_size, 3.0)
    assert got == pytest.approx(dollars, abs=0.005), f"{dollars} dollars, not {got}"
    exact = 3.0 / 3600 * (step_ms / 1e3) / batch_size * 1e6
    assert got != round(exact, 2), "rounded to cents: what is compared later are fractions of them"


@pytest.mark.exercise("cost_per_million")
@law
@given(step=st.floats(1e-4, 1), batch_size=st.integers(1, 1000), dollars=st.floats(0.1, 100))
def test_cost_per_million_times_the_millions_of_an_hour_are_its_dollars(impl, step, batch_size, dollars):
    millions = 3600 / step * batch_size / 1e6
    assert impl.cost_per_million(step, batch_size, dollars) * millions == pytest.approx(dollars)


@pytest.mark.exercise("cost_per_million")
@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        ((0, 1, 3.0), "step_seconds"),
        ((0.01, 0, 3.0), "batch_size"),
        ((0.01, 1.5, 3.0), "batch_size"),
        ((0.01, 1, 0), "dollars_per_hour"),
    ],
)
def test_cost_per_million_refuses_what_has_no_price(impl, arguments, blamed):
    assert_refuses(blamed, impl.cost_per_million, *arguments)


# --- pareto_front ------------------------------------------------------------------------------------------------


@pytest.mark.exercise("pareto_front")
def test_pareto_front_drops_what_is_beaten_and_sorts_the_rest(impl):
    points = [(10, 0.5), (5, 4.0), (12, 0.6), (15, 0.4), (5, 5.0)]
    got = impl.pareto_front(points)
    assert isinstance(got, list), f"the result is a list of points, not a {type(got).__name__}"
    assert (5, 4.0) in got, f"(5, 4.0) is missing, the fastest: less is better in both numbers; this is {got}"
    assert (12, 0.6) not in got, "(12, 0.6) is slower and dearer than (10, 0.5)"
    assert (5, 5.0) not in got, "(5, 5.0) is as fast as (5, 4.0) and dearer: a tie in one number does not save it"
    assert sorted(got) == [(5, 4.0), (10, 0.5), (15, 0.4)], f"three points are beaten by no other; these are {got}"
    assert got == [(5, 4.0), (10, 0.5), (15, 0.4)], f"sort by the first number, ascending; this is {got}"


@pytest.mark.exercise("pareto_front")
def test_pareto_front_drops_a_point_that_ties_in_the_second_number(impl):
    got = impl.pareto_front([(1, 3), (2, 3), (3, 1), (4, 1)])
    assert got == [(1, 3), (3, 1)], f"(2, 3) is as dear as (1, 3) and slower, (4, 1) than (3, 1); this is {got}"


@pytest.mark.exercise("pareto_front")
def test_pareto_front_carries_labels_along_and_keeps_equal_points(impl):
    # Labels that cannot be compared with each other must not matter.
    points = [(2, 1, "batch 32"), (1, 2, None, "x"), (2, 1, 32)]
    try:
        got = impl.pareto_front(points)
    except TypeError as error:
        pytest.fail(f"labels were compared ({error}): sort by the two numbers alone")
    except ValueError as error:
        pytest.fail(f"points with labels were refused ({error}): what stands behind the two numbers goes along")
    assert len(got) == 3, f"points that are equal in both numbers do not beat each other: both stay, not {got}"
    assert all(len(point) > 2 for point in got), f"what stands behind the two numbers goes along; this is {got}"
    equal = [(2, 1, "batch 32"), (2, 1, 32)]  # in whatever order
    assert got[0] == (1, 2, None, "x") and got[1:] in (equal, equal[::-1]), f"{got} are not the three points in order"


@pytest.mark.exercise("pareto_front")
def test_pareto_front_of_no_point_is_empty(impl):
    got = impl.pareto_front([])
    assert got == [], f"no point: an empty list, not {got}"


@pytest.mark.exercise("pareto_front")
def test_pareto_front_takes_points_that_can_be_read_once(impl):
    try:
        got = impl.pareto_front(iter([(2, 1), (1, 2)]))
    except TypeError as error:
        pytest.fail(f"points may be any iterable, also one without a length ({error}): make a list of it first")
    assert got == [(1, 2), (2, 1)], f"points may be an iterator, which is read once: make a list of it first; got {got}"


@pytest.mark.exercise("pareto_front")
@law
@given(points=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=25))
def test_pareto_front_agrees_with_comparing_every_pair(impl, points):
    def beaten(point):
        return any(o[0] <= point[0] and o[1] <= point[1] and o != point for o in points)

    shuffled = random.Random(fresh(0)).sample(points, len(points))
    expected = sorted(point for point in points if not beaten(point))
    got = impl.pareto_front(shuffled)
    assert got == expected, f"of {shuffled} no other point beats {expected}; got {got}"


@pytest.mark.exercise("pareto_front")
def test_pareto_front_takes_zeros(impl):
    try:
        got = impl.pareto_front([(0, 0), (0, 1)])
    except ValueError as error:
        pytest.fail(f"0 is allowed, only what is below is not; it was refused: {error}")
    assert got == [(0, 0)], f"(0, 0) beats all; got {got}"


@pytest.mark.exercise("pareto_front")
@pytest.mark.parametrize(
    "points", [[(1, 1), (1,)], [()], [(1, NAN)], [(NAN, 1)], [(INF, 1)], [(2, 1), (1, -1)], [(-1, 1)]], ids=str
)
def test_pareto_front_refuses_what_is_no_point(impl, points):
    assert_refuses("point", impl.pareto_front, points)


@pytest.mark.parametrize(
    ("function", "arguments", "blamed"),
    [
        ("cost_per_million", (0.01, 1, 0), "dollars_per_hour"),
        ("pareto_front", ([(1, 1), (1,)],), "points[1]"),
        ("pareto_front", ([(1, NAN)],), "points[0][1]"),
    ],
)
def test_the_engine_says_of_a_bad_price_what_is_allowed(function, arguments, blamed):
    with pytest.raises(ValueError, match=rf"{re.escape(blamed)} is .* must be "):
        getattr(pricing, function)(*arguments)
