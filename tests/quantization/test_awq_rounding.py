"""Grades `nanolm/quantization/awq_rounding.py` against a grid by hand."""

import pytest
import torch
from by_hand import close, name_the_mistake, random
from refusal import assert_refuses
from rounding_by_hand import LARGEST, rounded

from nanolm.quantization import awq


def correlated_inputs(n=512, D=48, seed=0):
    """Inputs as layers meet them: a few common causes, a little noise, and some channels much larger than others."""
    causes, mix = random(n, 12, seed=seed), random(12, D, seed=seed + 1)
    size = torch.exp(random(D, seed=seed + 2))
    return (causes @ mix + 0.3 * random(n, D, seed=seed + 3)) * size


def restored(codes, scales):
    """Code · scale, each scale for as many neighbours as fall to it."""
    return codes.double() * scales.double().repeat_interleave(codes.shape[1] // scales.shape[1], dim=1)


def error_of(weights, approximation, inputs):
    """Root of the summed squares of what the outputs move, relative to the outputs."""
    return (((inputs @ (weights - approximation).T) ** 2).sum() / ((inputs @ weights.T) ** 2).sum()).sqrt().item()


# --- channel_scales --------------------------------------------------------------------------------------------------


def channel_scales_grid(weights, inputs, bits, group_size=None):
    """All 21 candidates: (error of the outputs, channel scales), by α."""
    m = inputs.abs().mean(dim=0)
    grid = []
    for step in range(21):
        c = m ** (step / 20)
        c = c / (c.max() * c.min()) ** 0.5
        grid.append((error_of(weights, rounded(weights * c, bits, group_size) / c, inputs), c))
    return grid


@pytest.mark.exercise("channel_scales")
@pytest.mark.parametrize(("bits", "group_size"), [(4, None), (3, None), (3, 16)])
def test_channel_scales_are_those_with_the_smallest_output_error(impl, bits, group_size):
    weights, inputs = random(32, 48), correlated_inputs()
    actual = impl.channel_scales(weights, inputs, bits, group_size)
    grid = channel_scales_grid(weights, inputs, bits, group_size)
    best = min(error for error, _ in grid)
    assert grid[0][0] > best < grid[20][0], "the case must have its best α inside the grid"
    right = next(c for error, c in grid if error == best)
    suspects = {
        "channel scales are upside down: large inputs get large ones": 1 / right,
        "α = 1 is not the best here: compare the errors of the outputs": grid[20][1],
        "α = 0 is plain rounding: try the others too": grid[0][1],
    }
    mistake = name_the_mistake(actual, suspects, "not m^α / √(largest · smallest) of the α with the least output error")
    assert close(actual, right, 1e-9), mistake


@pytest.mark.exercise("channel_scales")
def test_channel_scales_of_inputs_of_one_size_are_one(impl):
    actual = impl.channel_scales(random(4, 16), torch.ones(8, 16, dtype=torch.float64), 4)
    assert close(actual, torch.ones(16).double(), 1e-9), "equal inputs: every α gives scales of 1"


@pytest.mark.exercise("channel_scales")
def test_channel_scales_of_dead_inputs_can_be_divided_by(impl):
    inputs = random(64, 16, seed=1)
    inputs[:, 7] = 0
    for x in (inputs, torch.zeros_like(inputs)):
        try:
            c = impl.channel_scales(random(4, 16), x, 3)
            fine = bool((c > 0).all() and torch.isfinite(c).all())
        except ValueError:  # weights divided by 0 further on
            fine = False
        assert fine, "an input that is always 0 gets channel scale 0, by which nothing can be divided: hold it above"


@pytest.mark.exercise("channel_scales")
def test_channel_scales_refuse_what_cannot_be_rounded(impl):
    weights, inputs = random(4, 16), random(64, 16, seed=1)
    assert_refuses("group_size", impl.channel_scales, weights, inputs, 4, 5)
    assert_refuses("bits", impl.channel_scales, weights, inputs, 1)
    assert_refuses("inputs", impl.channel_scales, weights, inputs[:, :8], 4)


# --- shrunken_scales -------------------------------------------------------------------------------------------------


def shrunken_by_hand(weights, inputs, bits, group_size=None):
    """Every group of every row by itself: the ratio, from 1 down to 0.5, that moves its outputs least."""
    size = group_size or weights.shape[1]
    result = torch.zeros(len(weights), weights.shape[1] // size, dtype=torch.float64)
    for row in range(len(weights)):
        for g in range(result.shape[1]):
            w, x = weights[row, g * size : (g + 1) * size], inputs[:, g * size : (g + 1) * size]
            tried = []
            for ratio in [step / 20 for step in range(20, 9, -1)]:
                scale = w.abs().max() / LARGEST[bits] * ratio
                tried.append((((x @ (nearest(w, scale, bits) - w)) ** 2).sum().item(), -ratio, scale))
            result[row, g] = min(tried)[2]
    return result


@pytest.mark.exercise("shrunken_scales")
@pytest.mark.parametrize(("bits", "group_size"), [(3, None), (4, 16), (2, 12)])
def test_shrunken_scales_are_the_best_of_eleven_for_each_group(impl, bits, group_size):
    weights, inputs = random(6, 48), correlated_inputs()
    actual = impl.shrunken_scales(weights, inputs, bits, group_size)
    absmax = weights.view(6, -1, group_size or 48).abs().amax(-1) / LARGEST[bits]
    assert actual.shape == absmax.shape, f"shape {tuple(actual.shape)}: one scale for each group of each row"
    assert not close(actual, absmax, 1e-9), "these are the absmax scales: some groups do better with smaller ones"
    blind = shrunken_by_hand(weights, torch.eye(48, dtype=torch.float64), bits, group_size)
    assert not close(actual, blind, 1e-9), "the least error of the *weights* was taken: weigh it by the inputs"
    expected = shrunken_by_hand(weights, inputs, bits, group_size)
    shared = len(set((actual / absmax * 20).round().int().flatten().tolist())) == 1
    assert not shared, "all groups were shrunken by the same ratio: each has its own best"
    assert close(actual, expected, 1e-9), f"in 20ths of absmax {(actual / absmax * 20).round().tolist()}"


@pytest.mark.exercise("shrunken_scales")
def test_shrunken_scales_stay_at_absmax_where_that_is_best(impl):
    # Whole multiples of 0.5 up to 7 · 0.5: nothing is lost with the absmax scale at 4 bits.
    weights = torch.arange(-7, 9, dtype=torch.float64).clamp(max=7)[None] / 2
    assert close(impl.shrunken_scales(weights, random(64, 16), 4), torch.tensor([[0.5]], dtype=torch.float64))
    zeros = impl.shrunken_scales(torch.zeros(2, 16), random(64, 16), 4)
    assert close(zeros.double(), torch.ones(2, 1).double()), "zeros lose nothing with scale 1, the first that is tried"


@pytest.mark.exercise("shrunken_scales")
def test_shrunken_scales_refuse_what_cannot_be_rounded(impl):
    weights, inputs = random(4, 16), random(64, 16, seed=1)
    assert_refuses("group_size", impl.shrunken_scales, weights, inputs, 4, 5)
    assert_refuses("bits", impl.shrunken_scales, weights, inputs, 1)
    assert_refuses("inputs", impl.shrunken_scales, weights, inputs[:, :8], 4)


# --- awq -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "group_size"), [(4, None), (3, 16)])
def test_awq_multiplies_columns_then_shrinks_scales(bits, group_size):
    weights, inputs = random(32, 48), correlated_inputs()
    codes, scales, c = awq(weights, inputs, bits, group_size)
    assert close(c, min(channel_scales_grid(weights, inputs, bits, group_size), key=lambda pair: pair[0])[1], 1e-9)
    assert close(scales, shrunken_by_hand(weights * c, inputs / c, bits, group_size), 1e-9)
    steps = scales.repeat_interleave(group_size or 48, dim=1)
    assert close(restored(codes, scales), nearest(weights * c, steps, bits), 1e-9)


@pytest.mark.parametrize("bits", [4, 3])
@pytest.mark.parametrize("group_size", [None, 16])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_awq_beats_plain_rounding_in_the_output(bits, group_size, seed):
    weights, inputs = random(32, 48, seed=seed + 10), correlated_inputs(seed=seed)
    unseen = correlated_inputs(n=2048, seed=seed)[512:]
    codes, scales, c = awq(weights, inputs, bits, group_size)
    ours, plain = restored(codes, scales) / c, rounded(weights, bits, group_size)
    for name, x in (("the calibration inputs", inputs), ("inputs that it has not seen", unseen)):
        before, after = error_of(weights, plain, x), error_of(weights, ours, x)
        assert after < 0.9 * before, f"on {name} the output is off by {after:.3f}, with plain rounding by {before:.3f}"
