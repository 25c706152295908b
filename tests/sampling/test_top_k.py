"""Grades `top_k_filter` with worked figures, a plain Python loop, and every edge case of its docstring."""

import pytest
import torch
from distributions import assert_probs, close, vector, worked
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_refuses


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_keeps_the_two_likeliest_of_the_worked_example(impl):
    wrong = {
        "no renormalisation: what stays must sum to 1 again": [0.5, 0.3, 0, 0],
        "the least probable stay: sort with descending=True": [0, 0, 0.75, 0.25],
        "one token too few: k = 2 keeps two": [1, 0, 0, 0],
        "one token too many: k = 2 keeps two": [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0],
        "a softmax was taken of what stays: divide by its sum": torch.softmax(vector(0.5, 0.3, 0, 0), -1),
        "the two that go were kept, and the others set to 0": [0, 0, 0.75, 0.25],
        "nothing was dropped": [0.5, 0.3, 0.15, 0.05],
    }
    why = "0.5/0.8 and 0.3/0.8 are 0.625 and 0.375"
    assert_probs(impl.top_k_filter(worked(), 2), [0.625, 0.375, 0, 0], wrong, why)


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_keeps_tokens_in_their_places(impl):
    actual = impl.top_k_filter(vector(0.05, 0.3, 0.15, 0.5), 2)
    assert not close(actual, [0.625, 0.375, 0, 0]), "the probabilities came back sorted: a token's place is its id"
    assert close(actual, [0, 0.375, 0, 0.625]), f"expected [0, 0.375, 0, 0.625], got {actual.tolist()}"


@pytest.mark.exercise("top_k_filter")
@pytest.mark.parametrize("k", [4, 5, 1000])
def test_top_k_filter_with_k_at_or_above_v_changes_nothing(impl, k):
    try:
        actual = impl.top_k_filter(worked(), k)
    except (ValueError, RuntimeError, IndexError) as error:
        if isinstance(error, NotImplementedError):
            raise
        pytest.fail(f"k = {k} of 4 tokens keeps them all; it stopped with {type(error).__name__}: {error}")
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
        f"two rows of shape (2, 1, 4), each filtered by itself over the last dimension (dim=-1); got {actual.tolist()}"
    )


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_of_a_certain_token_leaves_it_certain(impl):
    actual = impl.top_k_filter(vector(0, 1, 0), 2)
    assert actual.tolist() == [0, 1, 0], f"a certain token stays certain, also at k = 2; got {actual.tolist()}"


@pytest.mark.exercise("top_k_filter")
@settings(max_examples=100)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any), st.integers(1, 9))
def test_top_k_filter_equals_a_plain_loop(impl, weights, k):
    # Small whole weights make ties and zeros common.
    probs = [weight / sum(weights) for weight in weights]
    first = sorted(range(len(probs)), key=lambda token: (-probs[token], token))[:k]
    total = sum(probs[token] for token in first)
    expected = [p / total if token in first else 0.0 for token, p in enumerate(probs)]
    actual = impl.top_k_filter(vector(*probs), k)
    assert close(actual, expected), f"k = {k} of {probs}: expected {expected}, not {actual.tolist()}"


@pytest.mark.exercise("top_k_filter")
@pytest.mark.parametrize("k", [0, -3])
def test_top_k_filter_refuses_to_keep_nothing(impl, k):
    assert_refuses("k", impl.top_k_filter, worked(), k)


@pytest.mark.exercise("top_k_filter")
def test_top_k_filter_leaves_its_argument_alone(impl):
    probs = worked()
    impl.top_k_filter(probs, 2)
    assert torch.equal(probs, worked()), "the probabilities were changed in place"
