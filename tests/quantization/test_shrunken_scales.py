"""Grades `shrunken_scales` of `nanolm/quantization/awq_rounding.py` against a loop by hand, and tests `awq`."""

import pytest
import torch
from by_hand import close, name_the_mistake, random
from refusal import assert_refuses
from rounding_by_hand import (
    LARGEST,
    channel_scales_grid,
    correlated_inputs,
    error_of,
    nearest,
    restored,
    rounded,
    shrunken_by_hand,
)

from nanolm.quantization import awq


@pytest.mark.exercise("shrunken_scales")
@pytest.mark.parametrize(("bits", "group_size"), [(3, None), (4, 16), (2, 12)])
def test_shrunken_scales_are_the_best_of_eleven_for_each_group(impl, bits, group_size):
    weights, inputs = random(6, 48), correlated_inputs()
    case = weights, inputs, bits, group_size
    actual = impl.shrunken_scales(*case)
    assert isinstance(actual, torch.Tensor), f"a tensor comes back, not a {type(actual).__name__}"
    absmax = weights.view(6, -1, group_size or 48).abs().amax(-1) / LARGEST[bits]
    assert actual.shape == absmax.shape, f"shape {tuple(actual.shape)}: one scale for each group of each row"
    expected = shrunken_by_hand(weights, inputs, bits, group_size)
    suspects = {
        "these are the absmax scales: some groups do better with smaller ones": absmax,
        "the least error of the *weights* was taken: weigh it by the inputs": shrunken_by_hand(
            weights, torch.eye(48, dtype=torch.float64), bits, group_size
        ),
        "the ratios end above 0.5: eleven are tried, 1, 0.95, …, 0.5": shrunken_by_hand(*case, range(20, 10, -1)),
        "only every second ratio was tried: eleven are, 1, 0.95, …, 0.5": shrunken_by_hand(*case, range(20, 9, -2)),
        "ratios below 0.5 were tried: eleven are, 1, 0.95, …, 0.5": shrunken_by_hand(*case, range(20, 0, -1)),
        "the ratio with the *largest* error was taken": shrunken_by_hand(*case, worst=True),
        "the inputs' signs cancel: square the outputs before they are summed": shrunken_by_hand(
            weights, inputs.sum(0, keepdim=True), bits, group_size
        ),
    }
    twentieths = (actual / absmax * 20).round().int().flatten()
    all_alike = "all groups were shrunken by the same ratio: each has its own best"
    mistake = name_the_mistake(actual, suspects, all_alike if len(set(twentieths.tolist())) == 1 else "")
    assert not mistake or close(actual, expected, 1e-9), mistake
    best = (expected / absmax * 20).round().int().flatten()
    assert close(actual, expected, 1e-9), f"shrunken to {twentieths.tolist()} twentieths; best are {best.tolist()}"


@pytest.mark.exercise("shrunken_scales")
def test_shrunken_scales_go_down_to_one_half_and_no_further(impl):
    # One weight of 10 that is hardly read among 24 of 1: q = 3, and absmax 10/3 rounds the ones to 0. Half of it, 5/3,
    # rounds them to 1.67; a fifth of it would fit them, and is not tried.
    weights = torch.ones(1, 24, dtype=torch.float64)
    weights[0, 0] = 10
    inputs = torch.eye(24, dtype=torch.float64)
    inputs[0, 0] = 1e-3
    actual = (impl.shrunken_scales(weights, inputs, 3) / (10 / 3)).item()
    assert actual >= 0.49, f"shrunken to {actual:.2f} of absmax: the smallest that is tried is 0.5"
    assert actual < 0.54, f"shrunken to {actual:.2f} of absmax, and 0.5, the last of eleven, is better"
    assert actual == pytest.approx(0.5), f"shrunken to {actual:.3f} of absmax, not to 0.5"


@pytest.mark.exercise("shrunken_scales")
def test_shrunken_scales_compare_scales_as_they_are_stored(impl):
    for seed in range(0, 1000, 10):  # until there is a group in which it matters
        case = random(8, 48, seed=seed), correlated_inputs(n=96, seed=seed + 1), 3, 12
        late, expected = shrunken_by_hand(*case).bfloat16(), shrunken_by_hand(*case, stored=torch.bfloat16).bfloat16()
        if not torch.equal(late, expected):
            break
    actual = impl.shrunken_scales(*case, torch.bfloat16)
    assert actual.dtype == torch.bfloat16, f"scales are asked for in bfloat16 and come as {actual.dtype}"
    assert not torch.equal(actual, late), "rounded to their dtype after they were compared: round each one before"
    assert torch.equal(actual, expected), "not the best of eleven as they are stored"


@pytest.mark.exercise("shrunken_scales")
def test_shrunken_scales_stay_at_absmax_where_that_is_best(impl):
    # Whole multiples of 0.5 up to 7 · 0.5: nothing is lost with the absmax scale at 4 bits.
    weights = torch.arange(-7, 9, dtype=torch.float64).clamp(max=7)[None] / 2
    actual = impl.shrunken_scales(weights, random(64, 16), 4)
    half = torch.tensor([[0.5]], dtype=torch.float64)
    assert close(actual, half), f"{actual.tolist()}, not [[0.5]]: nothing is lost with the absmax scale, so it stays"
    zeros = impl.shrunken_scales(torch.zeros(2, 16), random(64, 16), 4)
    assert close(zeros.double(), torch.ones(2, 1).double()), (
        f"{zeros.flatten().tolist()} for rows of zeros, which lose nothing with any scale: the *larger* among "
        "equals is taken, here absmax's 1"
    )


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
