"""Tests `quantization/float8.py`: the format number by number, and that the simulation is a device's product."""

import copy

import pytest
import torch
from by_hand import close, random
from tiny_models import tiny_model, tokens_of

from nanolm.model import model_bytes, quantize_model
from nanolm.quantization import (
    FLOAT8,
    Float8Linear,
    float8_matmul,
    has_float8,
    multiply_float8,
    simulate_float8,
    to_float8,
)


def nearest_float8(x):
    """The nearest E4M3 number to a float, from the list of them all: ±(8 … 15) / 8 · 2^e, e from -6 to 8, and below
    2^-6 the multiples of 2^-9. 480 = 15/8 · 2^8 would be NaN and is left out."""
    numbers = [m / 8 * 2.0**e for e in range(-6, 9) for m in range(8, 16)][:-1] + [m * 2.0**-9 for m in range(8)]
    return max(sorted(numbers), key=lambda number: -abs(number - abs(x))) * (1 if x >= 0 else -1)


def test_floats_of_8_bits_are_the_nearest_of_the_format_s_numbers():
    x = random(40, 8)
    floats, scales = to_float8(x)
    assert floats.dtype == FLOAT8 and scales.shape == (40, 1)
    assert close(scales[:, 0].double(), x.abs().amax(1) / 448, 1e-7)
    expected = [[nearest_float8(number) for number in row] for row in (x / scales.double()).tolist()]
    assert close(floats.double(), torch.tensor(expected, dtype=torch.float64))


def test_a_row_of_zeros_and_numbers_that_are_not_finite():
    floats, scales = to_float8(torch.zeros(2, 3))
    assert not floats.float().any() and (scales == 1).all()
    with pytest.raises(ValueError, match="NaN"):
        to_float8(torch.tensor([1.0, torch.inf]))


def test_the_product_is_that_of_the_rounded_numbers():
    x, w = random(2, 3, 32), random(16, 32, seed=1)
    floats, scales = to_float8(w)
    rows, row_scales = to_float8(x)
    expected = (rows.double() * row_scales) @ (floats.double() * scales).T
    actual = float8_matmul(x, floats, scales)
    assert actual.dtype == x.dtype
    assert close(actual, expected, 1e-5)
    assert 0.001 < ((actual - x @ w.T).norm() / (x @ w.T).norm()).item() < 0.06


def test_the_simulation_equals_torch_s_own_product_of_8_bit_floats():
    rows, row_scales = to_float8(random(5, 64).float())
    weights, scales = to_float8(random(48, 64, seed=1).float())
    real = multiply_float8(rows, row_scales, weights, scales).double()
    simulated = simulate_float8(rows, row_scales, weights, scales).double()
    assert close(real, simulated, 0.005 * simulated.abs().max().item())  # the first comes back in bfloat16


def test_a_cpu_does_not_claim_to_have_8_bit_floats():
    assert not has_float8("cpu")


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_of_8_bit_floats_is_near_the_layer_and_holds_a_byte_a_weight(bias):
    linear, x = torch.nn.Linear(64, 48, bias=bias).requires_grad_(False), random(3, 64).float()
    layer = Float8Linear(linear)
    assert ((layer(x) - linear(x)).norm() / linear(x).norm()).item() < 0.06
    assert model_bytes(layer) == 48 * 64 + 48 * 4 + bias * 48 * 4


def test_a_model_of_8_bit_floats_is_near_the_model():
    model, tokens = tiny_model(), tokens_of(2, 9)
    for weight in model.parameters():
        if weight.ndim == 2:
            weight.mul_(0.5)
    right = model(tokens)
    ours = quantize_model(copy.deepcopy(model), 8, make=lambda name, linear: Float8Linear(linear))(tokens)
    assert 0 < ((ours - right).norm() / right.norm()).item() < 0.2
