"""Grades `top_p_filter` with worked figures, a plain Python loop, and every edge case of its docstring."""

import pytest
import torch
from distributions import NAN, assert_probs, close, vector, worked
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_refuses


def smallest_set(probs, p):
    """Tokens from the likeliest down, lower ids first, until their total reaches p."""
    kept, total = [], 0.0
    for token in sorted(range(len(probs)), key=lambda i: (-probs[i], i)):
        kept.append(token)
        total += probs[token]
        if total >= p - 1e-9:
            break
    weight = sum(probs[token] for token in kept)
    return [probs[i] / weight if i in kept else 0.0 for i in range(len(probs))]


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_keeps_the_crossing_token_of_the_worked_example(impl):
    # 0.5 + 0.3 = 0.8 has not reached 0.9; with the third, 0.95 has. 0.5/0.95, 0.3/0.95, 0.15/0.95.
    wrong = {
        "top-p drops the crossing token: the one that reaches p stays": [0.625, 0.375, 0, 0],
        "no renormalisation: what stays must sum to 1 again": [0.5, 0.3, 0.15, 0],
        "one token too many: the third has reached p already": [0.5, 0.3, 0.15, 0.05],
        "only the first stays: the running total is compared with p, not each probability": [1, 0, 0, 0],
        "a softmax was taken of what stays: divide by its sum": torch.softmax(vector(0.5, 0.3, 0.15, 0), -1),
        "tokens were taken from the least probable up: sort with descending=True": [0.5, 0.3, 0.15, 0.05],
    }
    expected = [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]
    assert_probs(impl.top_p_filter(worked(), 0.9), expected, wrong, "expected 0.526, 0.316, 0.158")


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_keeps_tokens_in_their_places(impl):
    actual = impl.top_p_filter(vector(0.05, 0.3, 0.15, 0.5), 0.7)
    assert not close(actual, [0.625, 0.375, 0, 0]), "the probabilities came back sorted: a token's place is its id"
    assert close(actual, [0, 0.375, 0, 0.625]), f"expected [0, 0.375, 0, 0.625], got {actual.tolist()}"


@pytest.mark.exercise("top_p_filter")
@pytest.mark.parametrize(
    ("probs", "p"),
    [
        ((0.5, 0.3, 0.15, 0.05), 0.8),  # 0.5 + 0.3 is 0.8 in float64 as well
        ((0.7, 0.1, 0.1, 0.1), 0.8),  # 0.7 + 0.1 is 0.7999999999999999 in float64
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_top_p_filter_takes_a_total_equal_to_p_up_to_rounding_as_reached(impl, probs, p, dtype):
    kept = int((impl.top_p_filter(vector(*probs, dtype=dtype), p) > 0).sum())
    assert kept == 2, f"{kept} tokens stay of {probs} at p = {p}: the first two reach it, give or take a last digit"


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_takes_a_total_that_misses_p_by_more_than_rounding_as_not_reached(impl):
    # 0.5 + 0.3 - 1e-7 misses 0.8 by a hundred times the 1e-9 of float64; in float32 1e-4 is as clear.
    for missing, dtype in ((1e-7, torch.float64), (1e-4, torch.float32)):
        kept = int((impl.top_p_filter(vector(0.5, 0.3 - missing, 0.2 + missing, dtype=dtype), 0.8) > 0).sum())
        assert kept == 3, f"in {dtype} a total of 0.8 - {missing:g} has not reached 0.8: the third token stays too"


@pytest.mark.exercise("top_p_filter")
@pytest.mark.parametrize("p", [1e-12, 0.1, 0.4999, 0.5])
def test_top_p_filter_with_p_at_or_below_the_largest_keeps_one(impl, p):
    actual = impl.top_p_filter(worked(), p)
    assert not actual.isnan().any(), "nothing was kept, and 0 / 0 is NaN: at least one token stays"
    assert actual.tolist() == [1, 0, 0, 0], f"the first token alone reaches p = {p}; got {actual.tolist()}"


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_with_p_one_keeps_every_possible_token(impl):
    tiny = 1e-15  # far below any rounding allowance
    probs = vector(0.6, 0.0, 0.4 - 2 * tiny, tiny, tiny)
    actual = impl.top_p_filter(probs, 1.0)
    assert (actual > 0).tolist() == [True, False, True, True, True], (
        f"p = 1 keeps all that is possible, however unlikely; kept {(actual > 0).tolist()} of {probs.tolist()}"
    )
    assert close(actual, probs.tolist()), f"p = 1 changes nothing; got {actual.tolist()}"


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_keeps_the_lower_ids_among_equals(impl):
    actual = impl.top_p_filter(vector(0.2, 0.2, 0.2, 0.2, 0.2), 0.5)
    assert close(actual, [1 / 3] * 3 + [0, 0]), f"ties: of five equals the first three reach 0.5; got {actual.tolist()}"
    long = impl.top_p_filter(torch.full((5000,), 1 / 5000, dtype=torch.float64), 0.001)
    assert long.nonzero().flatten().tolist() == list(range(5)), "ties: sort with stable=True"


@pytest.mark.exercise("top_p_filter")
@pytest.mark.parametrize("p", [0.01, 0.5, 1.0])
def test_top_p_filter_of_a_certain_token_leaves_it_certain(impl, p):
    actual = impl.top_p_filter(vector(0, 0, 1), p)
    assert actual.tolist() != [1, 0, 0], "the probabilities came back sorted: a token's place is its id"
    assert actual.tolist() == [0, 0, 1], f"a certain token stays certain, also at p = {p}; got {actual.tolist()}"


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_treats_each_row_on_its_own(impl):
    rows = torch.stack([worked(), vector(0.05, 0.4, 0.55, 0.0)])[:, None]  # (2, 1, 4)
    actual = impl.top_p_filter(rows, 0.9)
    assert close(actual, [[[0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]], [[0, 0.4 / 0.95, 0.55 / 0.95, 0]]]), (
        f"two rows of shape (2, 1, 4), each with a set of its own (dim=-1); got {actual.tolist()}"
    )


@pytest.mark.exercise("top_p_filter")
@settings(max_examples=200)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=7).filter(any), st.integers(1, 40))
def test_top_p_filter_equals_a_plain_loop(impl, weights, fortieths):
    # Small whole weights make ties, zeros and totals equal to p common. p = 1 is in too: total 1 is reached last.
    probs, p = [w / sum(weights) for w in weights], fortieths / 40
    actual = impl.top_p_filter(vector(*probs), p)
    expected = smallest_set(probs, p)
    assert close(actual, expected), f"p = {p} of {probs}: kept {actual.tolist()}, expected {expected}"


@pytest.mark.exercise("top_p_filter")
@pytest.mark.parametrize("p", [0.0, -0.1, 1.0001, NAN])
def test_top_p_filter_refuses_p_outside_its_range(impl, p):
    assert_refuses("p", impl.top_p_filter, worked(), p)


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_leaves_its_argument_alone(impl):
    probs = worked()
    impl.top_p_filter(probs, 0.5)
    assert torch.equal(probs, worked()), "the probabilities were changed in place"
