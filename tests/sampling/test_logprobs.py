"""`sampling/logprobs.py`: against logarithms by hand, and the order among equals."""

import math

import pytest
import torch

from nanolm.sampling import TokenLogprob, token_logprobs


def test_logprobs_of_the_worked_example():
    # Logits log 5, log 3, log 2: shares 0.5, 0.3, 0.2.
    (found,) = token_logprobs(torch.tensor([[5.0, 3.0, 2.0]]).double().log(), [1], 2)
    assert isinstance(found, TokenLogprob) and found.token == 1
    assert found.logprob == pytest.approx(math.log(0.3), abs=1e-15)
    assert [token for token, _ in found.top] == [0, 1]
    assert [logprob for _, logprob in found.top] == pytest.approx([math.log(0.5), math.log(0.3)], abs=1e-15)


def test_a_token_outside_the_best_is_reported_beside_them():
    (found,) = token_logprobs(torch.tensor([[3.0, 1.0, 2.0, 0.0]]), [3], 2)
    total = sum(math.exp(z) for z in range(4))
    assert found.token == 3 and found.logprob == pytest.approx(-math.log(total), abs=1e-15)
    assert [token for token, _ in found.top] == [0, 2]


def test_equals_come_lower_ids_first():
    logits = torch.tensor([[1.0, 2.0, 1.0, 2.0, 1.0, 1.0, 0.0]])
    (found,) = token_logprobs(logits, [6], 5)
    assert [token for token, _ in found.top] == [1, 3, 0, 2, 4]


def test_rows_are_reported_in_order_and_each_by_itself():
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    found = token_logprobs(logits, [3, 1, 4, 1], 3)
    assert [each.token for each in found] == [3, 1, 4, 1]
    for row, each in zip(logits.double(), found, strict=True):
        scores = (row - math.log(sum(math.exp(z) for z in row.tolist()))).tolist()
        assert each.logprob == pytest.approx(scores[each.token], abs=1e-12)
        best = sorted(range(50), key=lambda token: -scores[token])[:3]
        assert [token for token, _ in each.top] == best
        assert [logprob for _, logprob in each.top] == pytest.approx([scores[token] for token in best], abs=1e-12)


def test_short_numbers_are_summed_in_float64():
    logits = torch.zeros(1, 100_000, dtype=torch.bfloat16)
    (found,) = token_logprobs(logits, [99_999], 1)
    assert found.logprob == pytest.approx(-math.log(100_000), abs=1e-12)
    assert found.top == [(0, pytest.approx(-math.log(100_000), abs=1e-12))]


@pytest.mark.parametrize(("n_top", "reported"), [(0, 0), (1, 1), (3, 3), (20, 3)])
def test_as_many_are_reported_as_were_asked_for_and_there_are(n_top, reported):
    assert len(token_logprobs(torch.zeros(1, 3), [0], n_top)[0].top) == reported


def test_a_forbidden_token_has_the_logarithm_of_zero():
    (found,) = token_logprobs(torch.tensor([[0.0, -math.inf]]), [1], 2)
    assert found == (1, -math.inf, [(0, 0.0), (1, -math.inf)])


@pytest.mark.parametrize(
    ("tokens", "n_top", "message"),
    [
        ([0], 1, "tokens has 1 entries for 2 rows of logits"),
        ([0, 3], 1, "tokens holds 3; ids run from 0 to 2"),
        ([-1, 0], 1, "tokens holds -1; ids run from 0 to 2"),
        ([0, 0], -1, "n_top is -1; it must be 0 or more"),
    ],
)
def test_what_cannot_be_reported_is_refused(tokens, n_top, message):
    with pytest.raises(ValueError, match=message):
        token_logprobs(torch.zeros(2, 3), tokens, n_top)
