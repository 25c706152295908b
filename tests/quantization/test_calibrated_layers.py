"""Tests `gptq_linear` and `awq_linear`, and models whose layers they have rounded."""

import copy

import pytest
import torch
from by_hand import random
from rounding_by_hand import correlated_inputs, error_of, rounded
from tiny_models import tiny_model, tokens_of

from nanolm.model import quantize_calibrated, quantize_model
from nanolm.quantization import awq_linear, gptq_linear, output_error


@pytest.mark.parametrize("method", [gptq_linear, awq_linear])
@pytest.mark.parametrize(("bits", "group_size"), [(4, None), (3, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_calibrated_layer_is_nearer_to_the_layer_than_a_plainly_rounded_one(method, bits, group_size, bias):
    inputs = correlated_inputs()
    linear = torch.nn.Linear(48, 32, bias=bias).double().requires_grad_(False)
    linear.weight.copy_(random(32, 48, seed=9))
    layer = method(linear, inputs, bits, group_size)
    plain = inputs @ rounded(linear.weight, bits, group_size, torch.bfloat16).T + (linear.bias if bias else 0)
    right = linear(inputs)
    assert (layer(inputs) - right).norm() < 0.9 * (plain - right).norm()
    assert output_error(linear.weight, layer.weight.double(), inputs) == pytest.approx(
        error_of(linear.weight, layer.weight.double(), inputs)
    )


def model_with_large_channels():
    """A model some of whose channels are much larger than others, as those of trained models are."""
    model = tiny_model(d_model=24, d_ff=16, n_layers=2)
    for i, weight in enumerate(model.parameters()):
        if weight.ndim == 1:
            weight.copy_(torch.exp(random(len(weight), seed=i)))
        else:
            weight.mul_(0.25)
    return model


@pytest.mark.parametrize("method", [gptq_linear, awq_linear])
@pytest.mark.parametrize("bits", [4, 3])
def test_a_calibrated_model_scores_nearer_to_the_model_than_a_plainly_rounded_one(method, bits):
    model, tokens = model_with_large_channels(), tokens_of(24, 32)
    calibration, other = tokens[:16].tolist(), tokens[16:]
    right = model(other)
    plain = quantize_model(copy.deepcopy(model), bits, kernels=False)(other)
    ours = quantize_calibrated(copy.deepcopy(model), bits, calibration, method=method, kernels=False)(other)
    assert (ours - right).norm() < (plain - right).norm()
