"""Grades `acceptance_rate` of `speculative/acceptance.py`, and names what else has been added up."""

import pytest
import torch
from one_token import P, Q, close, vector


def rate_mistakes(p, q):
    safe = q.clamp(min=1e-30)
    return {
        "the larger of p and q, not the smaller: α = Σ min(p, q)": torch.maximum(p, q).sum(-1),
        "a mean over the tokens, not the sum: α = Σ min(p, q)": torch.minimum(p, q).mean(-1),
        "that is how often a token is rejected, 1 - α": 1 - torch.minimum(p, q).sum(-1),
        "Σ |p − q| is twice the mass that only one of them has: α = Σ min(p, q) = 1 − Σ |p − q| / 2": (
            1 - (p - q).abs().sum(-1)
        ),
        "Σ p·q is how often two draws are equal: α = Σ min(p, q)": (p * q).sum(-1),
        "the chance to keep x is weighted with p(x), but the draft proposes x with q(x): Σ q·min(1, p/q)": (
            p * (p / safe).clamp(max=1)
        ).sum(-1),
        "the chances min(1, p/q) averaged over all tokens alike: x is proposed with q(x)": (p / safe)
        .clamp(max=1)
        .mean(-1),
    }


def shown(rates):
    """Rates as one reads them, without the last digits."""
    return torch.round(rates.double(), decimals=6).tolist()


@pytest.mark.exercise("acceptance_rate")
@pytest.mark.parametrize(
    ("p", "q", "alpha"),
    [
        ((0.4, 0.3, 0.2, 0.1), (0.5, 0.1, 0.1, 0.3), 0.7),  # 0.4 + 0.1 + 0.1 + 0.1
        ((0.5, 0.3, 0.2), (0.3, 0.3, 0.4), 0.8),  # 0.3 + 0.3 + 0.2
        ((0.2, 0.8), (0.2, 0.8), 1.0),
        ((1.0, 0.0), (0.0, 1.0), 0.0),
        ((0.5, 0.5, 0.0), (0.3, 0.7, 0.0), 0.8),  # a token that neither says adds 0, and no 0/0
    ],
)
def test_acceptance_rate_is_the_sum_of_the_smaller_probabilities(impl, p, q, alpha):
    p, q = vector(*p), vector(*q)
    actual = impl.acceptance_rate(p, q)
    assert isinstance(actual, torch.Tensor), f"return a tensor: (V,) gives one without axes, not {actual!r}"
    assert actual.numel() == 1, f"two distributions give one number, not shape {tuple(actual.shape)}: sum over tokens"
    assert not actual.isnan(), "NaN: where q is 0, p/q divides by it; the smaller of p and q needs no division"
    actual = actual.double().reshape(())
    named = [mistake for mistake, result in rate_mistakes(p, q).items() if close(actual, result)]
    assert abs(actual - alpha) < 1e-6, (
        named[0] if named else f"α = Σ min(p, q), the mass both share: got {actual:.6g}, expected {alpha}"
    )


@pytest.mark.exercise("acceptance_rate")
def test_acceptance_rate_of_rows_is_one_number_a_row(impl):
    rows = impl.acceptance_rate(torch.stack([P, P]), torch.stack([Q, P]))
    assert rows.shape != (), "the rows were added up into one number: sum over the last dimension only"
    assert rows.shape != (4,), "the sum went over the rows, not over the tokens: sum over the last dimension"
    assert rows.shape != (2, 1), "the tokens are summed up, so their axis is gone: (…, V) gives (…), without keepdim"
    assert rows.shape == (2,), (
        f"two rows of 4 tokens give 2 rates, not shape {tuple(rows.shape)}: sum over the last dimension"
    )
    assert close(rows, [0.7, 1.0]), f"two rows that share 0.7 and 1.0 of their mass: got {shown(rows)}"


@pytest.mark.exercise("acceptance_rate")
def test_acceptance_rate_keeps_every_leading_dimension(impl):
    p, q = torch.stack([P, Q, P]).expand(2, 3, 4), torch.stack([Q, Q, vector(1, 0, 0, 0)]).expand(2, 3, 4)
    rates = impl.acceptance_rate(p, q)
    assert rates.shape == (2, 3), (
        f"(2, 3, V) gives (2, 3), not {tuple(rates.shape)}: the tokens are the last dimension, whatever stands before"
    )
    expected = [[0.7, 1.0, 0.4]] * 2
    assert close(rates, expected), f"expected the rates {expected} at the six places, got {shown(rates)}"
