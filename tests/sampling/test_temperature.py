"""Grades `temperature_probs` with worked figures, a plain Python loop, and every edge case of its docstring."""

import math

import pytest
import torch
from distributions import INF, NAN, assert_probs, close, softmax_by_hand, vector
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_refuses


@pytest.mark.exercise("temperature_probs")
@pytest.mark.parametrize(
    ("temperature", "expected"),
    [
        # Logits 2, 1, 0. At T = 0.5: e⁴ + e² + 1 = 54.598 + 7.389 + 1 = 62.987, shares 54.598/62.987 and so on.
        (0.5, (0.867, 0.117, 0.016)),
        (1.0, (0.665, 0.245, 0.090)),  # 7.389, 2.718, 1 of 11.107
        (2.0, (0.506, 0.307, 0.186)),  # e, e^0.5 = 1.649, 1 of 5.367
    ],
)
def test_temperature_probs_of_the_worked_example(impl, temperature, expected):
    actual = impl.temperature_probs(vector(2.0, 1.0, 0.0), temperature)
    wrong = {}
    if temperature != 1:
        wrong = {
            "logits are *divided* by the temperature": softmax_by_hand([2.0, 1.0, 0.0], 1 / temperature),
            "the temperature was ignored": softmax_by_hand([2.0, 1.0, 0.0], 1.0),
            "the probabilities were divided, not the logits": torch.tensor(softmax_by_hand([2, 1, 0], 1.0)).double()
            / temperature,
        }
    wrong["the exponentials were not divided by their sum"] = [math.exp(z / temperature) for z in (2, 1, 0)]
    assert_probs(actual, expected, wrong, f"expected {expected}", 5e-4)


def test_the_sum_of_the_worked_example_at_temperature_one_half():
    assert round(math.exp(2 / 0.5) + math.exp(1 / 0.5) + math.exp(0), 1) == 63.0


@pytest.mark.exercise("temperature_probs")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_temperature_probs_are_float64_whatever_the_logits_are(impl, dtype):
    logits = vector(0.5, 0.25, -3, dtype=dtype)  # exact in each type
    actual = impl.temperature_probs(logits, 0.7)
    assert actual.dtype == torch.float64, f"probabilities are float64, not {actual.dtype}"
    assert close(actual, softmax_by_hand([0.5, 0.25, -3], 0.7)), (
        "convert to float64 first, divide and exponentiate then"
    )


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_at_zero_is_all_on_the_largest(impl):
    actual = impl.temperature_probs(vector(1, 3, 2), 0.0)
    assert not actual.isnan().any(), "temperature 0 is the limit, not a division by zero"
    assert actual.dtype == torch.float64, f"probabilities are float64 at temperature 0 too, not {actual.dtype}"
    assert actual.tolist() == [0, 1, 0], f"all probability is on the largest logit: [0, 1, 0], not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_at_zero_goes_to_the_lowest_id_among_equals(impl):
    actual = impl.temperature_probs(vector(1, 3, 3, 3), 0.0)
    assert not close(actual, [0, 1 / 3, 1 / 3, 1 / 3]), "greedy picks one token, also in a tie: the lowest id"
    assert actual.tolist() == [0, 1, 0, 0], f"among equals the lowest id: [0, 1, 0, 0], not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
@pytest.mark.parametrize("temperature", [1e-2, 1e-9, 1e-300, 5e-324])
def test_temperature_probs_near_zero_goes_to_greedy_without_overflow(impl, temperature):
    actual = impl.temperature_probs(vector(700.0, 300.0, -700.0), temperature)
    assert not actual.isnan().any(), f"NaN at T = {temperature}: subtract the largest logit *before* dividing"
    assert actual.tolist() == [1, 0, 0], f"near T = 0 the largest logit has it all: [1, 0, 0], not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_treats_each_row_on_its_own(impl):
    logits = vector(2, 1, 0, 0, 0, 5).view(2, 1, 3)
    actual = impl.temperature_probs(logits, 1.0)
    assert actual.shape == (2, 1, 3), f"rows keep their shape, (2, 1, 3); this is {tuple(actual.shape)}"
    is_over_rows = close(actual.sum(dim=0), torch.ones(1, 3)) and not close(actual.sum(dim=-1), torch.ones(2, 1))
    assert not is_over_rows, "softmax runs over the vocabulary, the last dimension (dim=-1), not over the rows"
    for row in range(2):
        expected = softmax_by_hand(logits[row, 0].tolist(), 1.0)
        assert close(actual[row, 0], expected), (
            f"row {row} alone gives {expected}, in the batch {actual[row, 0].tolist()}: each row has a largest logit "
            "and a sum of its own (dim=-1, keepdim=True)"
        )
    actual = impl.temperature_probs(vector(700, 0, 0, -700).view(2, 2), 1e-306)
    assert actual.tolist() == [[1, 0], [1, 0]], (
        f"near T = 0 each row has its own largest logit to subtract, not that of all rows; got {actual.tolist()}"
    )


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_at_zero_serves_every_row(impl):
    actual = impl.temperature_probs(vector(1, 3, 2, 7, 0, 5).view(2, 1, 3), 0.0)
    assert actual.tolist() == [[[0, 1, 0]], [[1, 0, 0]]], f"one certain token in each row, not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
@settings(max_examples=100)
@given(st.lists(st.floats(-30, 30), min_size=1, max_size=6), st.floats(0.05, 20))
def test_temperature_probs_equals_a_plain_loop(impl, logits, temperature):
    actual, expected = impl.temperature_probs(vector(*logits), temperature), softmax_by_hand(logits, temperature)
    # A logit over T is 600 at most, and its last digit 1e-13: an answer may lose a few of these.
    assert close(actual, expected, 1e-11), f"{logits} at T = {temperature} give {expected}, not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_of_a_tie_near_zero_stays_a_tie(impl):
    assert close(impl.temperature_probs(vector(1, 1, 0), 1e-6), [0.5, 0.5, 0]), (
        "the limit from above keeps equals equal"
    )


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_of_a_high_temperature_goes_to_uniform(impl):
    actual = impl.temperature_probs(vector(2, 1, 0), 1e12)
    assert close(actual, [1 / 3] * 3, 1e-11), f"a very high temperature makes all tokens equal, not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
@pytest.mark.parametrize("temperature", [0.0, 1e-9, 0.5, 1.0])
def test_temperature_probs_gives_a_forbidden_token_nothing(impl, temperature):
    actual = impl.temperature_probs(vector(-INF, 0.0, -INF, -800.0), temperature)
    assert actual[0] == actual[2] == 0, f"a logit of -inf means probability 0 exactly, not {actual.tolist()}"
    assert close(actual, [0, 1, 0, 0]), f"all probability is on the one token with a score, not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_forbids_at_a_high_temperature_too(impl):
    actual = impl.temperature_probs(vector(-INF, 0.0, -1.0), 1e12)
    assert actual[0] == 0, f"a logit of -inf means 0 at any T; a large negative number in its place does not: {actual}"
    assert close(actual, [0, 0.5, 0.5], 1e-11), f"the two possible tokens are equal, not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_leaves_the_logits_alone(impl):
    logits = vector(2, 1, 0)
    impl.temperature_probs(logits, 0.5)
    impl.temperature_probs(logits, 0.0)
    assert logits.tolist() == [2, 1, 0], "the logits were changed in place"


@pytest.mark.exercise("temperature_probs")
@pytest.mark.parametrize(
    ("logits", "temperature", "names"),
    [
        ((1, 0), -0.5, "temperature"),
        ((1, 0), NAN, "temperature"),
        ((1, 0), INF, "temperature"),
        ((-INF, -INF), 1.0, "logits"),
        ((-INF, -INF), 0.0, "logits"),
        ((NAN, 0), 1.0, "logits"),
        ((0, NAN), 0.0, "logits"),
        ((INF, 0), 1.0, "logits"),
    ],
)
def test_temperature_probs_refuses_what_has_no_distribution(impl, logits, temperature, names):
    assert_refuses(names, impl.temperature_probs, vector(*logits), temperature)


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_finds_the_one_bad_row_of_a_batch(impl):
    for temperature in (0.0, 1.0):
        assert_refuses("logits", impl.temperature_probs, torch.tensor([[1.0, 2.0], [-INF, -INF]]), temperature)
