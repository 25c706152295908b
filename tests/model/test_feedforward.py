"""`nanolm/model/feedforward.py` against the formula, one number at a time."""

import math

import pytest
import torch
from by_hand import close, random
from tiny_models import tiny_config

from nanolm.model import FeedForward


@pytest.fixture
def layer():
    module = FeedForward(tiny_config(d_model=4, d_ff=3)).double().requires_grad_(False)
    for i, weight in enumerate(module.parameters()):
        weight.copy_(random(*weight.shape, seed=i))
    return module


def silu(z):
    return z / (1 + math.exp(-z))


def by_hand(layer, x, gate_rows, up_rows):
    """down · (silu(gate · x) · (up · x)) for one vector."""
    joined = [sum(w * n for w, n in zip(row, x, strict=True)) for row in layer.gate_up.weight.tolist()]
    hidden = [silu(joined[g]) * joined[u] for g, u in zip(gate_rows, up_rows, strict=True)]
    return [sum(w * h for w, h in zip(row, hidden, strict=True)) for row in layer.down.weight.tolist()]


def test_feedforward_is_down_of_silu_gate_times_up(layer):
    x = random(2, 3, 4, seed=9)
    actual = layer(x)
    for b in range(2):
        for t in range(3):
            swapped = by_hand(layer, x[b, t].tolist(), gate_rows=(3, 4, 5), up_rows=(0, 1, 2))
            assert actual[b, t].tolist() != pytest.approx(swapped), "gate and up are swapped: silu goes over the gate"
            right = by_hand(layer, x[b, t].tolist(), gate_rows=(0, 1, 2), up_rows=(3, 4, 5))
            assert actual[b, t].tolist() == pytest.approx(right, abs=1e-12), f"position ({b}, {t}) is not SwiGLU"


def test_feedforward_treats_each_position_on_its_own(layer):
    x = random(1, 5, 4)
    alone = torch.cat([layer(x[:, t : t + 1]) for t in range(5)], dim=1)
    assert close(layer(x), alone), "a position's output depends on its neighbours"
