"""Grades `summation`: sums in float32 by the standard library's rounding, and the token that their order picks."""

import struct
from decimal import Context, Decimal
from numbers import Integral

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from named import assert_number
from refusal import assert_refuses


def float32(x):
    """Round to float32 with the standard library."""
    return struct.unpack("f", struct.pack("f", x))[0]


def test_three_significant_digits_give_two_sums_of_the_same_numbers():
    add = Context(prec=3).add
    large, small = Decimal(100), Decimal("0.4")
    assert add(add(large, small), small) == 100  # 100.4 rounds to 100, twice
    assert add(large, add(small, small)) == 101  # 100.8 rounds to 101


@pytest.mark.exercise("float32_sum")
def test_float32_sum_rounds_after_every_addition(impl):
    # 2²⁴ + 1 lies between two float32 numbers and rounds back to 2²⁴, each time anew; in float64 the sum is 2²⁴ + 2.
    large = 2.0**24
    wrong = {"the additions were made in float64: round to float32 after every one of them": large + 2}
    got = impl.float32_sum([large, 1.0, 1.0], [0, 1, 2])
    assert_number(got, large, wrong, "2²⁴ + 1 rounds back to 2²⁴, twice", 0)
    wrong = {"the order was ignored, or turned round: order[0] names the value that comes first": large}
    assert_number(impl.float32_sum([large, 1.0, 1.0], [1, 2, 0]), large + 2, wrong, "1 + 1 first, then 2²⁴", 0)


@pytest.mark.exercise("float32_sum")
def test_float32_sum_adds_one_value_after_the_other(impl):
    # Each of the forty ones rounds away alone; a sum in groups adds some of them to each other first.
    values = [2.0**24, *[1.0] * 40]
    wrong = {
        "the additions were made in float64: round to float32 after every one of them": 2.0**24 + 40,
        "torch.sum or np.sum adds in groups, in an order of its own: add one value at a time": torch.tensor(values)
        .sum()
        .item(),
    }
    assert_number(impl.float32_sum(values, range(41)), 2.0**24, wrong, "2²⁴ + 1 rounds back to 2²⁴, forty times", 0)


@pytest.mark.exercise("float32_sum")
@pytest.mark.parametrize(
    ("order", "total"),
    [
        ((0, 1, 2), 0.0),  # 10⁸ + 1 rounds to 10⁸ (neighbours are 8 apart), then - 10⁸
        ((0, 2, 1), 1.0),  # 10⁸ - 10⁸ = 0, then + 1
        ((1, 0, 2), 0.0),
        ((2, 0, 1), 1.0),  # -10⁸ + 10⁸ = 0, then + 1
        ((1, 2, 0), 0.0),  # 1 - 10⁸ rounds to -10⁸, then + 10⁸
    ],
)
def test_float32_sum_depends_on_the_order(impl, order, total):
    actual = impl.float32_sum([1e8, 1.0, -1e8], order)
    assert actual == total, f"in the order {order} the float32 sum is {total}, not {actual}: round after every addition"


@pytest.mark.exercise("float32_sum")
def test_float32_sum_rounds_each_value_first(impl):
    # 0.1 in float64 is 0.1000000000000000055…, in float32 0.100000001490116…
    actual = impl.float32_sum([0.1], [0])
    assert actual == 0.10000000149011612, f"the values are float32 too: 0.1 becomes 0.10000000149…, not {actual}"
    # The second value is a little more than half the step from 1 to the next float32; in float32 it is exactly half,
    # and 1 plus half a step rounds back to 1.
    step = 2.0**-23
    wrong = {"the values are float32 too: round each before it is added": 1 + step}
    assert_number(
        impl.float32_sum([1.0, step / 2 * (1 + 2.0**-25)], [0, 1]), 1.0, wrong, "1 + 2⁻²⁴ rounds back to 1", 0
    )


@pytest.mark.exercise("float32_sum")
def test_float32_sum_is_a_python_float(impl):
    for values in ([0.5, 0.25], []):
        actual = impl.float32_sum(values, range(len(values)))
        assert isinstance(actual, float), (
            f"the result is a Python float, not {type(actual).__name__} (.item() makes one)"
        )


@pytest.mark.exercise("float32_sum")
def test_float32_sum_of_nothing_is_zero(impl):
    try:
        actual = impl.float32_sum([], [])
    except (IndexError, ValueError) as error:
        pytest.fail(f"a sum without values is 0; it stopped with {type(error).__name__}: {error}")
    assert actual == 0.0, f"a sum without values is 0, not {actual}"


@pytest.mark.exercise("float32_sum")
@settings(max_examples=100)
@given(st.lists(st.floats(-1e6, 1e6), max_size=8), st.randoms(use_true_random=False))
def test_float32_sum_equals_a_plain_loop(impl, values, random):
    order, total = random.sample(range(len(values)), len(values)), 0.0
    for index in order:
        # float64 has 53 ≥ 2·24 + 2 bits: rounding twice is rounding once
        total = float32(total + float32(values[index]))
    actual = impl.float32_sum(values, order)
    assert actual == total, f"{values} in the order {order}: {total!r}, not {actual!r}"


@pytest.mark.exercise("float32_sum")
@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [0, 1, 3], [0, 1, 2, 2]])
def test_float32_sum_refuses_an_order_that_is_no_permutation(impl, order):
    assert_refuses("order", impl.float32_sum, [1.0, 2.0, 3.0], order)


@pytest.mark.exercise("greedy_pick_with_summation_order")
@pytest.mark.parametrize(("order", "token"), [((0, 2, 1), 0), ((0, 1, 2), 1)])
def test_greedy_pick_with_summation_order_picks_another_token_in_another_order(impl, order, token):
    # Token 0's terms sum to 0 in the first order and to 1 in the second; token 1's to 0.5 in both, token 2's to 0.25.
    terms = [[1e8, 1.0, -1e8], [0.25, 0.125, 0.125], [0.125, 0.125, 0.0]]
    actual = impl.greedy_pick_with_summation_order(terms, order)
    is_id = isinstance(actual, Integral) or (hasattr(actual, "ndim") and actual.ndim == 0)
    assert is_id, f"the result is the token's id, a whole number, not {actual!r}"
    logit = 0.0 if order == (0, 1, 2) else 1.0
    assert actual != 2, "token 2 has the smallest logit of all: the largest is picked"
    why = f"in the order {order} token 0's terms 10⁸, 1, -10⁸ add up to {logit} in float32, token 1's to 0.5"
    doubt = "the order was ignored" if order == (0, 2, 1) else "the sums were made in float64, or at once"
    assert actual == token, f"{why}, so token {token} is picked; is it that {doubt}?"


@pytest.mark.exercise("greedy_pick_with_summation_order")
def test_greedy_pick_with_summation_order_takes_the_lower_id_among_equals(impl):
    actual = impl.greedy_pick_with_summation_order([[1.0, 1.0], [0.5, 3.0], [3.0, 0.5], [3.5, 0.0]], (1, 0))
    assert actual == 1, f"tokens 1, 2 and 3 all score 3.5: the lowest id, 1, is picked, not {actual}"


@pytest.mark.exercise("greedy_pick_with_summation_order")
def test_greedy_pick_with_summation_order_picks_the_largest_when_all_are_negative(impl):
    actual = impl.greedy_pick_with_summation_order([[-2.0, -1.0], [-0.5, -1.0], [-4.0, 0.0]], (0, 1))
    assert actual != 2, "the scores are -3, -1.5 and -4: -4 is largest without its sign only"
    assert actual == 1, f"the scores are -3, -1.5 and -4: token 1 is the largest, not {actual}"


@pytest.mark.exercise("greedy_pick_with_summation_order")
@settings(max_examples=100)
@given(
    st.lists(st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4), min_size=1, max_size=6), st.permutations(range(4))
)
def test_greedy_pick_with_summation_order_equals_a_plain_loop(impl, terms, order):
    logits = []
    for row in terms:
        total = 0.0
        for index in order:
            total = float32(total + float32(row[index]))
        logits.append(total)
    actual = impl.greedy_pick_with_summation_order(terms, order)
    assert actual == logits.index(max(logits)), f"in the order {order} the logits are {logits}; picked {actual}"


@pytest.mark.exercise("greedy_pick_with_summation_order")
@pytest.mark.parametrize("order", [[0, 0], [0], [0, 2], [0, 1, 1]])
def test_greedy_pick_with_summation_order_refuses_an_order_that_is_no_permutation(impl, order):
    assert_refuses("order", impl.greedy_pick_with_summation_order, [[1.0, 2.0]], order)
