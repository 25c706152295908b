"""Distributions over a few tokens, by hand: what tests of sampling hand out, and how they compare."""

import math
from collections.abc import Mapping, Sequence

import pytest
import torch
from torch import Tensor

INF, NAN = math.inf, math.nan


def vector(*numbers, dtype=torch.float64) -> Tensor:
    return torch.tensor(numbers, dtype=dtype)


def worked() -> Tensor:
    """The worked example, made anew: an answer that changes its argument should fail one test, not all."""
    return vector(0.5, 0.3, 0.15, 0.05)


def close(actual, expected, tolerance=1e-12) -> bool:
    if not isinstance(actual, Tensor):
        pytest.fail(f"the result must be a tensor, not {type(actual).__name__}")
    expected = torch.as_tensor(expected, dtype=torch.float64)
    return actual.shape == expected.shape and torch.allclose(actual.double(), expected, rtol=0, atol=tolerance)


def assert_probs(actual, expected, wrong: Mapping[str, Sequence[float]], why: str, tolerance=1e-12) -> None:
    """Fail unless the result is the expected distribution.

    Args:
        wrong: what each common mistake gives, by what to say of it.
        why: what to say of a result that is none of these.
    """
    if close(actual, expected, tolerance):
        return
    for mistake, result in wrong.items():
        if close(actual, result, max(tolerance, 1e-9)):
            pytest.fail(f"{mistake}; got {_shown(actual)}")
    if actual.dtype != torch.float64 and close(actual, expected, 1e-2):
        pytest.fail(f"probabilities of float64 stay float64, not {actual.dtype}: too much is rounded away")
    pytest.fail(f"{why}; got {_shown(actual)}")


def _shown(actual: Tensor) -> str:
    return str([round(number, 6) for number in actual.tolist()]) if actual.ndim == 1 else str(actual.tolist())


def softmax_by_hand(logits: Sequence[float], temperature: float) -> list[float]:
    largest = max(logits)
    weights = [math.exp((z - largest) / temperature) for z in logits]
    return [weight / sum(weights) for weight in weights]


# Rules for the worked example, and what they leave: each alone, and rules that change nothing.
RULES = [
    ({}, (0.5, 0.3, 0.15, 0.05)),
    ({"top_k": 2}, (0.625, 0.375, 0, 0)),
    ({"top_p": 0.9}, (0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0)),
    ({"temperature": 0.5}, (0.25 / 0.365, 0.09 / 0.365, 0.0225 / 0.365, 0.0025 / 0.365)),  # squares
    ({"min_p": 0.25}, (0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0)),  # 0.25 · 0.5 = 0.125 is asked for
    ({"top_k": 9, "top_p": 1.0, "min_p": 0.0}, (0.5, 0.3, 0.15, 0.05)),
    ({"temperature": 1e-300}, (1, 0, 0, 0)),
]
