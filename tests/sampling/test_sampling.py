"""Grades `nanolm/sampling/` with worked figures, plain Python loops, and every edge case of the docstrings."""

import math
import struct
from decimal import Context, Decimal

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal import assert_refuses

from nanolm import sampling
from nanolm.sampling import Rng, SamplingParams

INF, NAN = math.inf, math.nan


def vector(*numbers, dtype=torch.float64):
    return torch.tensor(numbers, dtype=dtype)


def close(actual, expected, tolerance=1e-12):
    if not isinstance(actual, torch.Tensor):
        pytest.fail(f"the result must be a tensor, not {type(actual).__name__}")
    expected = torch.as_tensor(expected, dtype=torch.float64)
    return actual.shape == expected.shape and torch.allclose(actual.double(), expected, rtol=0, atol=tolerance)


def softmax_by_hand(logits, temperature):
    largest = max(logits)
    weights = [math.exp((z - largest) / temperature) for z in logits]
    return [weight / sum(weights) for weight in weights]


def worked():
    """The worked example, made anew: an answer that changes its argument should fail one test, not all."""
    return vector(0.5, 0.3, 0.15, 0.05)


# --- temperature_probs -------------------------------------------------------------------------------------------


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
    upside_down = softmax_by_hand([2.0, 1.0, 0.0], 1 / temperature)
    assert temperature == 1 or not close(actual, upside_down, 5e-4), "logits are *divided* by the temperature"
    assert close(actual, expected, 5e-4), f"expected {expected}, got {actual.tolist()}"


def test_the_sum_of_the_worked_example_at_temperature_one_half():
    assert round(math.exp(2 / 0.5) + math.exp(1 / 0.5) + math.exp(0), 1) == 63.0


@pytest.mark.exercise("temperature_probs")
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(-30, 30), min_size=1, max_size=6), st.floats(0.05, 20))
def test_temperature_probs_equals_a_plain_loop(impl, logits, temperature):
    actual, expected = impl.temperature_probs(vector(*logits), temperature), softmax_by_hand(logits, temperature)
    assert close(actual, expected, 1e-13), f"{logits} at T = {temperature} give {expected}, not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_treats_each_row_on_its_own(impl):
    logits = vector(2, 1, 0, 0, 0, 5).view(2, 1, 3)
    actual = impl.temperature_probs(logits, 1.0)
    assert actual.shape == (2, 1, 3), f"rows keep their shape, (2, 1, 3); this is {tuple(actual.shape)}"
    assert not close(actual, torch.softmax(logits, dim=0)), "softmax runs over the vocabulary, the last dimension"
    for row in range(2):
        expected = softmax_by_hand(logits[row, 0].tolist(), 1.0)
        assert close(actual[row, 0], expected), (
            f"row {row} alone gives {expected}, in the batch {actual[row, 0].tolist()}: each row has a largest logit "
            "and a sum of its own (dim=-1, keepdim=True)"
        )


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
def test_temperature_probs_at_zero_serves_every_row(impl):
    actual = impl.temperature_probs(vector(1, 3, 2, 7, 0, 5).view(2, 1, 3), 0.0)
    assert actual.tolist() == [[[0, 1, 0]], [[1, 0, 0]]], f"one certain token in each row, not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
def test_temperature_probs_at_zero_goes_to_the_lowest_id_among_equals(impl):
    actual = impl.temperature_probs(vector(1, 3, 3, 3), 0.0)
    assert actual.tolist() != [0, 1 / 3, 1 / 3, 1 / 3], "greedy picks one token, also in a tie: the lowest id"
    assert actual.tolist() == [0, 1, 0, 0], f"among equals the lowest id: [0, 1, 0, 0], not {actual.tolist()}"


@pytest.mark.exercise("temperature_probs")
@pytest.mark.parametrize("temperature", [1e-2, 1e-9, 1e-300, 5e-324])
def test_temperature_probs_near_zero_goes_to_greedy_without_overflow(impl, temperature):
    actual = impl.temperature_probs(vector(700.0, 300.0, -700.0), temperature)
    assert not actual.isnan().any(), f"NaN at T = {temperature}: subtract the largest logit *before* dividing"
    assert actual.tolist() == [1, 0, 0], f"near T = 0 the largest logit has it all: [1, 0, 0], not {actual.tolist()}"


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


# --- top_k_filter ------------------------------------------------------------------------------------------------


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_keeps_the_two_likeliest_of_the_worked_example(impl):
    actual = impl.top_k_filter(worked(), 2)
    assert not close(actual, [0.5, 0.3, 0, 0]), "no renormalisation: what stays must sum to 1 again"
    assert close(actual, [0.625, 0.375, 0, 0]), f"0.5/0.8 and 0.3/0.8 are 0.625 and 0.375, not {actual.tolist()}"


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_keeps_tokens_in_their_places(impl):
    actual = impl.top_k_filter(vector(0.05, 0.3, 0.15, 0.5), 2)
    assert not close(actual, [0.625, 0.375, 0, 0]), "the probabilities came back sorted: a token's place is its id"
    assert close(actual, [0, 0.375, 0, 0.625]), f"expected [0, 0.375, 0, 0.625], got {actual.tolist()}"


@pytest.mark.exercise("top_k_filter")
@pytest.mark.parametrize("k", [4, 5, 1000])
def test_top_k_filter_with_k_at_or_above_v_changes_nothing(impl, k):
    actual = impl.top_k_filter(worked(), k)
    assert close(actual, worked(), 1e-15), f"k = {k} of 4 tokens keeps them all as they are; got {actual.tolist()}"


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_of_one_is_certain(impl):
    actual = impl.top_k_filter(vector(0.2, 0.5, 0.3), 1)
    assert actual.tolist() == [0, 1, 0], f"k = 1 leaves the most probable token, with certainty; got {actual.tolist()}"


@pytest.mark.exercise("top_k_filter")
@pytest.mark.parametrize(
    ("probs", "k", "expected"),
    [
        ((0.2, 0.4, 0.2, 0.2), 2, (1 / 3, 2 / 3, 0, 0)),
        ((0.25, 0.25, 0.25, 0.25), 3, (1 / 3, 1 / 3, 1 / 3, 0)),
        ((0.25, 0.25, 0.25, 0.25), 1, (1, 0, 0, 0)),
    ],
)
def test_top_k_filter_keeps_exactly_k_when_the_kth_is_tied(impl, probs, k, expected):
    actual = impl.top_k_filter(vector(*probs), k)
    kept = int((actual > 0).sum())
    assert kept == k, (
        f"k-th ties: {kept} tokens stay of {probs} at k = {k}. A threshold (probs >= the k-th) keeps every equal; "
        "take the first k of a stable order"
    )
    assert close(actual, expected), f"k-th ties: among equals the lower ids stay; got {actual.tolist()}"


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_breaks_ties_by_id_in_a_long_row_too(impl):
    # Sorting algorithms differ for long rows: only a stable one keeps equals in order.
    actual = impl.top_k_filter(torch.full((5000,), 1 / 5000, dtype=torch.float64), 7)
    assert actual.nonzero().flatten().tolist() == list(range(7)), "k-th ties: sort with stable=True"


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_treats_each_row_on_its_own(impl):
    rows = torch.stack([worked(), worked().flip(0)])[:, None]  # (2, 1, 4)
    actual = impl.top_k_filter(rows, 2)
    assert close(actual, [[[0.625, 0.375, 0, 0]], [[0, 0, 0.375, 0.625]]]), (
        f"two rows of shape (2, 1, 4), each filtered by itself; got {actual.tolist()}"
    )


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_of_a_certain_token_leaves_it_certain(impl):
    actual = impl.top_k_filter(vector(0, 1, 0), 2)
    assert actual.tolist() == [0, 1, 0], f"a certain token stays certain, also at k = 2; got {actual.tolist()}"


@pytest.mark.exercise("top_k_filter")
@pytest.mark.parametrize("k", [0, -3])
def test_top_k_filter_refuses_to_keep_nothing(impl, k):
    assert_refuses("k", impl.top_k_filter, worked(), k)


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_leaves_its_argument_alone(impl):
    probs = worked()
    impl.top_k_filter(probs, 2)
    assert torch.equal(probs, worked()), "the probabilities were changed in place"


# --- top_p_filter ------------------------------------------------------------------------------------------------


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
    actual = impl.top_p_filter(worked(), 0.9)
    assert not close(actual, [0.625, 0.375, 0, 0]), "top-p drops the crossing token: the one that reaches p stays"
    assert not close(actual, [0.5, 0.3, 0.15, 0]), "no renormalisation: what stays must sum to 1 again"
    assert close(actual, [0.526, 0.316, 0.158, 0], 5e-4), f"expected 0.526, 0.316, 0.158, got {actual.tolist()}"


@pytest.mark.exercise("top_p_filter")
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 12), min_size=1, max_size=7).filter(any), st.integers(1, 40))
def test_top_p_filter_equals_a_plain_loop(impl, weights, fortieths):
    # Small whole weights make ties, zeros and totals equal to p common. p = 1 is in too: total 1 is reached last.
    probs, p = [w / sum(weights) for w in weights], fortieths / 40
    actual = impl.top_p_filter(vector(*probs), p)
    expected = smallest_set(probs, p)
    assert close(actual, expected), f"p = {p} of {probs}: kept {actual.tolist()}, not {expected}"


@pytest.mark.exercise("top_p_filter")
@pytest.mark.parametrize(
    ("probs", "p"),
    [
        ((0.5, 0.3, 0.15, 0.05), 0.8),  # 0.5 + 0.3 is 0.8 in float64 as well
        ((0.7, 0.1, 0.1, 0.1), 0.8),  # 0.7 + 0.1 is 0.7999999999999999 in float64
    ],
)
def test_top_p_filter_takes_a_total_equal_to_p_up_to_rounding_as_reached(impl, probs, p):
    kept = int((impl.top_p_filter(vector(*probs), p) > 0).sum())
    assert kept == 2, f"{kept} tokens stay of {probs} at p = {p}: the first two reach it, give or take a last digit"


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
        "p = 1 keeps all that is possible, however unlikely"
    )
    assert close(actual, probs.tolist()), f"p = 1 changes nothing; got {actual.tolist()}"


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_keeps_the_lower_ids_among_equals(impl):
    actual = impl.top_p_filter(vector(0.2, 0.2, 0.2, 0.2, 0.2), 0.5)
    assert close(actual, [1 / 3] * 3 + [0, 0]), f"ties: of five equals the first three reach 0.5; got {actual.tolist()}"
    long = impl.top_p_filter(torch.full((5000,), 1 / 5000, dtype=torch.float64), 0.001)
    assert long.nonzero().flatten().tolist() == list(range(5)), "ties: sort with stable=True"


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_keeps_tokens_in_their_places(impl):
    actual = impl.top_p_filter(vector(0.05, 0.3, 0.15, 0.5), 0.7)
    assert not close(actual, [0.625, 0.375, 0, 0]), "the probabilities came back sorted: a token's place is its id"
    assert close(actual, [0, 0.375, 0, 0.625]), f"expected [0, 0.375, 0, 0.625], got {actual.tolist()}"


@pytest.mark.exercise("top_p_filter")
@pytest.mark.parametrize("p", [0.01, 0.5, 1.0])
def test_top_p_filter_of_a_certain_token_leaves_it_certain(impl, p):
    actual = impl.top_p_filter(vector(0, 0, 1), p)
    assert actual.tolist() == [0, 0, 1], f"a certain token stays certain, also at p = {p}; got {actual.tolist()}"


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_treats_each_row_on_its_own(impl):
    rows = torch.stack([worked(), vector(0.05, 0.0, 0.95, 0.0)])[:, None]  # (2, 1, 4)
    actual = impl.top_p_filter(rows, 0.9)
    assert close(actual, [[[0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]], [[0, 0, 1, 0]]]), (
        f"two rows of shape (2, 1, 4), each with a set of its own (dim=-1); got {actual.tolist()}"
    )


@pytest.mark.exercise("top_p_filter")
@pytest.mark.parametrize("p", [0.0, -0.1, 1.0001, NAN])
def test_top_p_filter_refuses_p_outside_its_range(impl, p):
    assert_refuses("p", impl.top_p_filter, worked(), p)


@pytest.mark.exercise("top_p_filter")
def test_top_p_filter_leaves_its_argument_alone(impl):
    probs = worked()
    impl.top_p_filter(probs, 0.5)
    assert torch.equal(probs, worked()), "the probabilities were changed in place"


# --- SamplingParams.probs ----------------------------------------------------------------------------------------


def probs_by_rule(impl, probs, **rules):
    """What SamplingParams.probs makes of logits that are the logarithms of probs."""
    try:
        return impl.SamplingParams(**rules).probs(vector(*probs).log())
    except TypeError as error:
        said = str(error)
    return pytest.fail(f"with {rules or 'no rule'} it stops ({said}): a filter that is None is left out")


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_hands_top_p_the_renormalised_probabilities(impl):
    # After top-k 3: 0.526, 0.316, 0.158. The first two total 0.842 ≥ 0.84 and stay: 0.625, 0.375. Unnormalised they
    # total 0.8, and the third would stay too.
    actual = probs_by_rule(impl, (0.5, 0.3, 0.15, 0.05), top_k=3, top_p=0.84)
    assert not close(actual, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]), (
        "a third token stays, as if top-p saw 0.5 + 0.3 = 0.8, below 0.84: no renormalisation between top-k and top-p, "
        "or top-p does not come after top-k"
    )
    assert close(actual, [0.625, 0.375, 0, 0]), f"k = 3, then p = 0.84 leave (0.625, 0.375), not {actual.tolist()}"


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_applies_the_temperature_before_the_filters(impl):
    # At T = 2 the probabilities go with their roots: 0.7071, 0.5477, 0.3873, 0.2236 of 1.8657 are 0.379, 0.294,
    # 0.208, 0.120. Two of them total 0.673, so p = 0.7 keeps three, in shares 0.7071, 0.5477, 0.3873 of 1.6421.
    actual = probs_by_rule(impl, (0.5, 0.3, 0.15, 0.05), temperature=2.0, top_p=0.7)
    # Filters first: 0.5 + 0.3 = 0.8 ≥ 0.7 keeps two, then 0.7071 and 0.5477 of 1.2548.
    assert not close(actual, [0.5635, 0.4365, 0, 0], 1e-4), (
        "the temperature is applied after the filters: it comes first, for it changes which tokens reach p"
    )
    assert close(actual, [0.4306, 0.3335, 0.2358, 0], 1e-4), (
        f"T = 2, then p = 0.7 leave (0.4306, 0.3335, 0.2358), not {actual.tolist()}"
    )


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_applies_top_k_before_top_p(impl):
    # Top-p first: 0.4 + 0.35 = 0.75 ≥ 0.7 keeps two, and top-k 2 changes nothing. Top-k first: 0.4/0.75 = 0.533.
    actual = probs_by_rule(impl, (0.4, 0.35, 0.25), top_k=2, top_p=0.53)
    assert not close(actual, [0.4 / 0.75, 0.35 / 0.75, 0]), (
        "two tokens stay, so top-p ran first or not at all: top-k comes before top-p, and then 0.533 alone reaches 0.53"
    )
    assert close(actual, [1, 0, 0]), f"k = 2, then p = 0.53 leave the first token alone, not {actual.tolist()}"


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_applies_min_p_after_top_p(impl):
    # Top-p first: 0.4 + 0.35 ≥ 0.53 keeps two, 0.533 and 0.467, and min-p 0.5 both. Min-p first: those two are left as
    # 0.533 and 0.467 before top-p looks, and 0.533 alone reaches 0.53.
    actual = probs_by_rule(impl, (0.4, 0.35, 0.15, 0.1), top_p=0.53, min_p=0.5)
    assert not close(actual, [1, 0, 0, 0]), "one token stays, so min-p ran first: min-p comes after top-p"
    assert close(actual, [0.4 / 0.75, 0.35 / 0.75, 0, 0]), (
        f"p = 0.53, then min-p 0.5 leave (0.533, 0.467), not {actual.tolist()}"
    )


# Each rule alone, rules that change nothing, and rules that follow each other.
RULES = [
    ({}, (0.5, 0.3, 0.15, 0.05)),
    ({"top_k": 2}, (0.625, 0.375, 0, 0)),
    ({"top_p": 0.9}, (0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0)),
    ({"temperature": 0.5}, (0.25 / 0.365, 0.09 / 0.365, 0.0225 / 0.365, 0.0025 / 0.365)),  # squares
    ({"min_p": 0.25}, (0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0)),  # 0.25 · 0.5 = 0.125 is asked for
    ({"top_k": 9, "top_p": 1.0, "min_p": 0.0}, (0.5, 0.3, 0.15, 0.05)),
    ({"temperature": 1e-300}, (1, 0, 0, 0)),
    ({"top_k": 3, "top_p": 0.84}, (0.625, 0.375, 0, 0)),
]


@pytest.mark.exercise("SamplingParams.probs")
@pytest.mark.parametrize(("rules", "expected"), RULES, ids=str)
def test_probs_applies_each_rule_that_is_given(impl, rules, expected):
    actual = probs_by_rule(impl, (0.5, 0.3, 0.15, 0.05), **rules)
    assert close(actual, expected), f"{rules or 'no rule'} should leave {expected}, not {actual.tolist()}"


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_at_temperature_zero_are_certain_whatever_the_filters(impl):
    actual = impl.SamplingParams(temperature=0.0, top_k=2, top_p=0.9).probs(
        torch.tensor([[1.0, 3.0, 2.0], [0.0, 0.0, -INF]])
    )
    assert actual.tolist() == [[0, 1, 0], [1, 0, 0]], f"temperature 0 leaves one token a row, not {actual.tolist()}"


# --- sample_next -------------------------------------------------------------------------------------------------


class RecordingRng:
    """Rng that take the last possible index, and remember the distribution they were handed."""

    def __init__(self):
        self.seen = []

    def categorical(self, probs):
        probs = torch.as_tensor(probs)
        assert probs.ndim == 1, f"rng.categorical takes one row at a time, (V,), not {tuple(probs.shape)}"
        self.seen.append(probs.tolist())
        return int(probs.nonzero()[-1])

    def bernoulli(self, prob):
        raise AssertionError("one draw from the vocabulary is one categorical")


@pytest.mark.exercise("sample_next")
@pytest.mark.parametrize(("rules", "expected"), RULES, ids=str)
def test_sample_next_draws_from_what_the_rules_leave(impl, rules, expected):
    rng = RecordingRng()
    impl.sample_next(vector(0.5, 0.3, 0.15, 0.05).log()[None], SamplingParams(**rules), rng)
    assert len(rng.seen) == 1, f"{len(rng.seen)} draws were made for one token, all from `rng`: one is needed"
    assert close(vector(*rng.seen[0]), expected), (
        f"{rules or 'no rule'} should leave {expected}; `rng.categorical` was handed {rng.seen[0]}"
    )


@pytest.mark.exercise("sample_next")
def test_sample_next_draws_once_for_each_row_in_order(impl):
    logits = torch.stack([vector(0.2, 0.8, 0.0), vector(1.0, 0.0, 0.0), vector(0.1, 0.2, 0.7)]).log()
    rng = RecordingRng()
    tokens = impl.sample_next(logits, SamplingParams(), rng)
    assert [round(row[0], 6) for row in rng.seen] == [0.2, 1.0, 0.1], "one draw for each row, the first row first"
    assert isinstance(tokens, torch.Tensor), f"the result is a tensor of ids, not a {type(tokens).__name__}"
    assert tokens.shape == (3,), f"one id a row, (B,) = (3,), not {tuple(tokens.shape)}"
    assert not tokens.is_floating_point(), f"ids are whole numbers, not {tokens.dtype}"
    assert tokens.tolist() == [1, 0, 2], "the result is what the rng said"


@pytest.mark.exercise("sample_next")
def test_sample_next_at_temperature_zero_is_greedy_and_uses_no_randomness(impl):
    rng = RecordingRng()
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, 5.0, 5.0], [-INF, -INF, -9.0]])
    tokens = impl.sample_next(logits, SamplingParams(temperature=0.0, top_k=1, top_p=0.5), rng)
    assert not rng.seen, "greedy needs no rng: a seeded run would change with the temperature of another request"
    assert tokens.tolist() == [1, 0, 2], "the largest logit of each row, the lowest id among equals"
    assert not tokens.is_floating_point(), f"ids are whole numbers, not {tokens.dtype}"


@pytest.mark.exercise("sample_next")
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
def test_sample_next_refuses_scores_that_say_nothing(impl, temperature, wrong):
    # A row of -inf only, or one NaN or +inf in the second row.
    logits = torch.tensor([[1.0, 0.0], [wrong, wrong]])
    assert_refuses("logits", lambda rows: impl.sample_next(rows, SamplingParams(temperature), Rng(seed=0)), logits)


@pytest.mark.exercise("sample_next")
def test_sample_next_repeats_with_the_seed(impl):
    logits = torch.zeros(40, 11)
    first, again, other = (impl.sample_next(logits, SamplingParams(), Rng(seed)).tolist() for seed in (1, 1, 2))
    assert first == again, "the same seed gave other tokens: is all randomness taken from `rng`?"
    assert first != other, "seeds 1 and 2 gave the same 40 tokens of 11: is the draw really random?"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SamplingParams(temperature=-1.0), r"temperature is -1\.0; .* 0 \(greedy\) or more"),
        (lambda: SamplingParams(temperature=NAN), r"temperature is nan; it must be finite"),
        (lambda: SamplingParams(temperature=INF), r"temperature is inf; it must be finite"),
        (lambda: SamplingParams(top_k=0), r"top_k is 0; it must be a whole number, 1 or more \(None keeps all\)"),
        (lambda: SamplingParams(top_p=0.0), r"top_p is 0\.0; it must be above 0 and at most 1"),
        (lambda: SamplingParams(top_p=1.5), r"top_p is 1\.5; it must be above 0 and at most 1"),
        (lambda: sampling.temperature_probs(vector(-INF, -INF), 1.0), r"logits hold NaN, \+inf, or a row of -inf"),
        (lambda: sampling.float32_sum([1.0, 2.0], [0, 2]), r"order is \[0, 2\]; .* each of 0 to 1 once"),
    ],
)
def test_a_bad_argument_is_refused_with_its_name_and_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_scores_that_are_nan_are_refused_also_when_greedy(temperature):
    with pytest.raises(ValueError, match="logits hold NaN"):
        sampling.sample_next(torch.tensor([[1.0, NAN, 0.0]]), SamplingParams(temperature), Rng(seed=0))


def test_greedy_as_a_distribution_and_as_a_pick_agree():
    logits = torch.tensor([[1.0, 3.0, 3.0], [0.0, -1.0, -INF]])
    assert SamplingParams(temperature=0.0).probs(logits).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_top_p_of_float32_probabilities_allows_for_float32_rounding():
    # 0.7 + 0.1 in float32 is 0.8000000 or 0.79999995, by how it is rounded: two tokens either way.
    assert int((sampling.top_p_filter(vector(0.7, 0.1, 0.1, 0.1, dtype=torch.float32), 0.8) > 0).sum()) == 2


# --- sums in another order ---------------------------------------------------------------------------------------


def float32(x):
    """Round to float32 with the standard library."""
    return struct.unpack("f", struct.pack("f", x))[0]


def test_three_significant_digits_give_two_sums_of_the_same_numbers():
    add = Context(prec=3).add
    large, small = Decimal(100), Decimal("0.4")
    assert add(add(large, small), small) == 100  # 100.4 rounds to 100, twice
    assert add(large, add(small, small)) == 101  # 100.8 rounds to 101


@pytest.mark.exercise("float32_sum")
@pytest.mark.parametrize(
    ("order", "total"),
    [
        ((0, 1, 2), 0.0),  # 10⁸ + 1 rounds to 10⁸ (neighbours are 8 apart), then - 10⁸
        ((0, 2, 1), 1.0),  # 10⁸ - 10⁸ = 0, then + 1
        ((1, 0, 2), 0.0),
    ],
)
def test_float32_sum_depends_on_the_order(impl, order, total):
    actual = impl.float32_sum([1e8, 1.0, -1e8], order)
    assert actual == total, f"in the order {order} the float32 sum is {total}, not {actual}: round after every addition"


@pytest.mark.exercise("float32_sum")
def test_float32_sum_rounds_after_every_addition(impl):
    # 2^24 + 1 lies between two float32 numbers and rounds back to 2^24, each time anew; in float64 the sum is 2^24 + 2.
    values = [2.0**24, 1.0, 1.0]
    actual = impl.float32_sum(values, [0, 1, 2])
    assert actual != 2.0**24 + 2, "the additions were made in float64: round to float32 after every one of them"
    assert actual == 2.0**24, f"2²⁴ + 1 rounds back to 2²⁴, twice: {2.0**24}, not {actual}"
    actual = impl.float32_sum(values, [1, 2, 0])
    assert actual == 2.0**24 + 2, f"1 + 1 first, then 2²⁴: {2.0**24 + 2}, not {actual}"


@pytest.mark.exercise("float32_sum")
def test_float32_sum_rounds_each_value_first(impl):
    # 0.1 in float64 is 0.1000000000000000055…, in float32 0.100000001490116…
    actual = impl.float32_sum([0.1], [0])
    assert actual == 0.10000000149011612, f"the values are float32 too: 0.1 becomes 0.10000000149…, not {actual}"


@pytest.mark.exercise("float32_sum")
def test_float32_sum_of_nothing_is_zero(impl):
    actual = impl.float32_sum([], [])
    assert actual == 0.0, f"a sum without values is 0, not {actual}"


@pytest.mark.exercise("float32_sum")
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(-1e6, 1e6), max_size=8), st.randoms(use_true_random=False))
def test_float32_sum_equals_a_plain_loop(impl, values, random):
    order, total = random.sample(range(len(values)), len(values)), 0.0
    for index in order:
        total = float32(
            total + float32(values[index])
        )  # float64 has 53 ≥ 2·24 + 2 bits: rounding twice is rounding once
    actual = impl.float32_sum(values, order)
    assert type(actual) is float, f"the result is a Python float, not {type(actual).__name__} (.item() makes one)"
    at_once = torch.tensor([values[index] for index in order], dtype=torch.float32).sum().item()
    assert actual == total or actual != at_once, "torch.sum groups the values in an order of its own: add one at a time"
    assert actual == total, f"{values} in the order {order}: {total!r}, not {actual!r}"


@pytest.mark.exercise("float32_sum")
@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [0, 1, 3], [0, 1, 2, 2]])
def test_float32_sum_refuses_an_order_that_is_no_permutation(impl, order):
    assert_refuses("order", impl.float32_sum, [1.0, 2.0, 3.0], order)


@pytest.mark.exercise("greedy_pick_with_summation_order")
@pytest.mark.parametrize(("order", "token"), [((0, 1, 2), 1), ((0, 2, 1), 0)])
def test_greedy_pick_with_summation_order_picks_another_token_in_another_order(impl, order, token):
    # Token 0's terms sum to 0 in the first order and to 1 in the second; token 1's to 0.5 in both.
    terms = [[1e8, 1.0, -1e8], [0.25, 0.125, 0.125]]
    actual = impl.greedy_pick_with_summation_order(terms, order)
    assert actual == token, f"in the order {order} token {token} has the larger float32 score"


@pytest.mark.exercise("greedy_pick_with_summation_order")
def test_greedy_pick_with_summation_order_takes_the_lower_id_among_equals(impl):
    actual = impl.greedy_pick_with_summation_order([[1.0, 1.0], [0.5, 3.0], [3.0, 0.5], [3.5, 0.0]], (1, 0))
    assert actual == 1, f"tokens 1, 2 and 3 all score 3.5: the lowest id, 1, is picked, not {actual}"


@pytest.mark.exercise("greedy_pick_with_summation_order")
def test_greedy_pick_with_summation_order_picks_the_largest_when_all_are_negative(impl):
    actual = impl.greedy_pick_with_summation_order([[-2.0, -1.0], [-0.5, -1.0], [-4.0, 0.0]], (0, 1))
    assert actual == 1, f"the scores are -3, -1.5 and -4: token 1 is the largest, not {actual}"


@pytest.mark.exercise("greedy_pick_with_summation_order")
def test_greedy_pick_with_summation_order_refuses_an_order_that_is_no_permutation(impl):
    assert_refuses("order", impl.greedy_pick_with_summation_order, [[1.0, 2.0]], [0, 0])
