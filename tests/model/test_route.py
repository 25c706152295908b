"""Grades `route` of `nanolm/model/moe.py` against a sort and a softmax of one position, in plain Python."""

import math

import pytest
import torch
from by_hand import close, random
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_refuses
from routing_by_hand import route_by_hand, softmax

law = settings(max_examples=60)


def routed(impl, logits, k):
    """(experts, shares) of the answer; a tensor of whole numbers and one of shares, each with k in the last place."""
    try:
        experts, shares = impl.route(logits, k)
    except ValueError as error:
        pytest.fail(f"k = {k} of {logits.shape[-1]} experts and finite logits are fine, and were refused ({error})")
    assert isinstance(experts, torch.Tensor) and isinstance(shares, torch.Tensor), "return two tensors, (…, k) each"
    assert not experts.is_floating_point(), (
        "the first of the pair holds no whole numbers: return (experts, shares), the ids first"
    )
    shape = (*logits.shape[:-1], k)
    assert experts.shape == shares.shape == shape, (
        f"logits {tuple(logits.shape)} and k = {k} give two tensors {shape}; got {tuple(experts.shape)} and "
        f"{tuple(shares.shape)}"
    )
    return experts, shares


@pytest.mark.exercise("route")
def test_route_of_the_worked_example_shares_62_to_38(impl):
    experts, shares = routed(impl, torch.tensor([2.0, 1.5, 0.0, -1.0], dtype=torch.float64), 2)
    assert sorted(experts.tolist()) != [2, 3], f"the weakest experts instead of the strongest: {experts.tolist()}"
    assert sorted(experts.tolist()) == [0, 1], f"0 and 1 have the largest logits, not {experts.tolist()}"
    suspects = {
        # e^2 = 7.389 and e^1.5 = 4.482; with e^0 + e^-1 = 1.368 besides, they would be 0.558 and 0.339 of 13.239.
        "softmax before top-k without renormalising: the shares of the chosen add up to 0.90": [0.558, 0.339],
        "a softmax of a softmax: it goes over the chosen logits themselves": softmax([0.5581, 0.3385]),
        "logits divided by their sum: the shares are their softmax": [2 / 3.5, 1.5 / 3.5],
        "a sigmoid, not a softmax": [0.8808, 0.8176],
        "a sigmoid, not a softmax, divided by the sum": [0.5186, 0.4814],
        "all chosen experts alike: the shares are the softmax over the chosen logits": [0.5, 0.5],
        "e^logit, not divided by the sum over the chosen: a softmax does that": [7.389, 4.482],
    }
    named = [mistake for mistake, values in suspects.items() if shares.tolist() == pytest.approx(values, abs=1e-3)]
    assert not named, named[0]
    # 7.389 / (7.389 + 4.482) = 1 / (1 + e^-0.5)
    assert sorted(shares.tolist(), reverse=True) == pytest.approx([0.6225, 0.3775], abs=1e-4), (
        f"the softmax goes over the chosen logits alone, (0.6225, 0.3775); got {shares.tolist()}"
    )


@pytest.mark.exercise("route")
def test_route_puts_the_strongest_expert_first(impl):
    experts, shares = routed(impl, torch.tensor([0.0, 1.0, 3.0, 2.0], dtype=torch.float64), 3)
    assert experts.tolist() == [2, 3, 1], f"the largest logit first: [2, 3, 1], not {experts.tolist()}"
    assert float(shares.sum()) == pytest.approx(1), (
        f"the shares of the chosen add up to {float(shares.sum()):.2f}, not 1: the softmax goes over their logits alone"
    )
    assert shares.tolist() == pytest.approx(softmax([3.0, 2.0, 1.0])), (
        f"share j belongs to expert j of the same list, the largest first; got {shares.tolist()}"
    )


@pytest.mark.exercise("route")
def test_route_takes_the_lower_id_of_equal_logits(impl):
    # Enough equal logits that a sort which does not keep their order shows it, and one that stands out.
    logits = torch.zeros(3, 64, dtype=torch.float64)
    logits[:, 40] = 1.0
    experts, shares = routed(impl, logits, 4)
    assert experts.tolist() == [[40, 0, 1, 2]] * 3, (
        f"of equal logits the lower id comes first: the sort must be stable (topk promises nothing). Expert 40 is best "
        f"and all others are equal, and it chose {experts.tolist()[0]}"
    )
    assert close(shares, torch.tensor([softmax([1.0, 0.0, 0.0, 0.0])] * 3, dtype=torch.float64), 1e-6)


@pytest.mark.exercise("route")
def test_route_takes_logits_of_any_leading_shape(impl):
    logits = random(2, 3, 5).tanh()  # below 1, and no two alike: ties are another test's
    for place in range(6):
        logits.view(6, 5)[place, place % 5] += 9  # no two positions of a text have the same best expert
    experts, shares = routed(impl, logits, 2)
    assert close(shares.sum(-1).double(), torch.ones(2, 3).double(), 1e-5), (
        "the shares of a position do not add up to 1: the softmax goes over its own k, the last dimension"
    )
    by_hand = [[route_by_hand(position, 2) for position in text] for text in logits.tolist()]
    expected = [[chosen for chosen, _ in text] for text in by_hand]
    turned = [[chosen[::-1] for chosen in text] for text in expected]
    assert experts.tolist() != turned, f"the largest first: {expected}, not {experts.tolist()}"
    assert experts.tolist() == expected, (
        f"each position has its own experts: {expected}, (text, position, k), not {experts.tolist()}"
    )
    expected = torch.tensor([[share for _, share in text] for text in by_hand], dtype=torch.float64)
    assert close(shares.double(), expected, 1e-6), f"the softmax over the chosen logits, not {shares.tolist()}"


@pytest.mark.exercise("route")
def test_route_to_all_experts_is_a_sort_and_a_softmax(impl):
    experts, shares = routed(impl, torch.tensor([[0.0, 1.0, 3.0], [1.0, 0.0, 0.0]], dtype=torch.float64), 3)
    assert experts.tolist() == [[2, 1, 0], [0, 1, 2]], f"k = E: all of them, sorted; got {experts.tolist()}"
    assert shares[0].tolist() == pytest.approx(softmax([3.0, 1.0, 0.0]), abs=1e-6)


@pytest.mark.exercise("route")
@law
@given(st.integers(1, 6), st.integers(1, 9), st.data())
def test_route_is_a_sort_and_a_softmax_of_each_position(impl, n_positions, n_experts, data):
    k = data.draw(st.integers(1, n_experts))
    scores = st.lists(st.sampled_from([-2.0, -0.5, 0.0, 1.0, 1.5]), min_size=n_experts, max_size=n_experts)
    rows = [data.draw(scores) for _ in range(n_positions)]
    experts, shares = routed(impl, torch.tensor(rows, dtype=torch.float64), k)
    for row, chosen, share in zip(rows, experts.tolist(), shares.tolist(), strict=True):
        expected, expected_shares = route_by_hand(row, k)
        assert chosen == expected, (
            f"of the logits {row} the {k} best, ties to the lower id, are {expected}, not {chosen}"
        )
        assert share == pytest.approx(expected_shares, abs=1e-6), f"softmax over the chosen of {row}; got {share}"


@pytest.mark.exercise("route")
@pytest.mark.parametrize("k", [0, -1, 5])
def test_route_refuses_more_experts_than_there_are_and_fewer_than_one(impl, k):
    assert_refuses("k", impl.route, torch.zeros(3, 4), k)


@pytest.mark.exercise("route")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_route_refuses_logits_that_are_no_numbers(impl, value):
    assert_refuses("logits", impl.route, torch.tensor([0.0, value, 1.0]), 2)
