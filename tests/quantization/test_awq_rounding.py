"""Grades `nanolm/quantization/awq_rounding.py` against a grid by hand."""

import pytest
import torch
from by_hand import close, name_the_mistake, random
from refusal import assert_refuses
from rounding_by_hand import LARGEST, correlated_inputs, error_of, nearest, restored, rounded

from nanolm.quantization import awq

# --- channel_scales ----------------------------------------------------------------------------------------------


def channel_scales_grid(weights, inputs, bits, group_size=None):
    """All 21 candidates: (error of the outputs, channel scales), by α."""
    return [(moved(weights, inputs, bits, group_size, c), c) for c in candidates(inputs.abs().mean(dim=0))]


def candidates(m):
    """m^α for α = 0, 1/20, …, 1, divided by √(largest · smallest); what is 0 counts as a thousandth of the largest."""
    m = m.clamp(min=m.max() / 1000)
    powers = [m ** (step / 20) for step in range(21)]
    return [c / (c.max() * c.min()) ** 0.5 for c in powers]


def moved(weights, inputs, bits, group_size, c):
    return error_of(weights, rounded(weights * c, bits, group_size) / c, inputs)


def case_with_its_best(at, bits, group_size=None, power=0.0):
    """Weights, inputs and their grid, drawn anew until the best α is one of `at`, and clearly so: no order of adding
    up decides it.

    Args:
        power: how much smaller the weights of large inputs are; at 1.5 nearly every draw has its best at α = 1.
    """
    for seed in range(0, 2000, 10):
        weights, inputs = random(16, 48, seed=seed), correlated_inputs(n=96, seed=seed + 1)
        weights = weights / inputs.abs().mean(0) ** power
        grid = channel_scales_grid(weights, inputs, bits, group_size)
        errors = [error for error, _ in grid]
        first, second = sorted(errors)[:2]
        if errors.index(first) in at and first < (1 - 1e-6) * second:
            return weights, inputs, grid
    raise AssertionError("no draw of 200 had its best α where it is asked for")


@pytest.mark.exercise("channel_scales")
@pytest.mark.parametrize(("bits", "group_size"), [(4, None), (3, None), (3, 16)])
def test_channel_scales_are_those_with_the_smallest_output_error(impl, bits, group_size):
    weights, inputs, grid = case_with_its_best(range(2, 19), bits, group_size)
    actual = impl.channel_scales(weights, inputs, bits, group_size)
    assert isinstance(actual, torch.Tensor), f"a tensor comes back, not a {type(actual).__name__}"
    assert actual.shape == (48,), f"shape {tuple(actual.shape)}, not (D,) = (48,): one for each column"
    best = min(error for error, _ in grid)
    alpha = next(step for step, (error, _) in enumerate(grid) if error == best)
    right, m = grid[alpha][1], inputs.abs().mean(dim=0)
    wrong_sizes = {
        "m is the largest |input| of a column: it is their mean": inputs.abs().amax(dim=0),
        "m is the root of the mean square: it is the mean of the absolute values": (inputs**2).mean(dim=0) ** 0.5,
        "m is the mean of the inputs with their signs: take their absolute values": inputs.mean(dim=0).abs(),
    }
    suspects = [
        ("not divided by √(largest · smallest): the scales lie around 1", m ** (alpha / 20)),
        ("divided by largest · smallest: its root is missing", right / (m.max() * m.min()) ** (alpha / 40)),
        (
            "c = 1 (α = 0) is plain rounding, and another α is better here. It comes out too where the error of the "
            "weights is compared and not that of the outputs, where Ŵ is not divided by c before, and with m^-α",
            grid[0][1],
        ),
        ("α = 1 is not the best here: compare the errors of the outputs, and take the least", grid[20][1]),
        *[("channel scales are upside down: large inputs get large ones", 1 / c) for _, c in grid[1:]],
        *[(f"that is α = {i}/20, and {alpha}/20 is better: compare all 21", c) for i, (_, c) in enumerate(grid)],
        *[(why, c) for why, sizes in wrong_sizes.items() for c in candidates(sizes)[1:]],
    ]
    found = [why for why, c in suspects if close(actual, c, 1e-9)]
    mistake = (found or ["not m^α / √(largest · smallest) of the α with the least output error"])[0]
    assert close(actual, right, 1e-9), mistake


@pytest.mark.exercise("channel_scales")
@pytest.mark.parametrize(("bits", "group_size"), [(4, None), (3, 16)])
def test_channel_scales_try_every_alpha_up_to_one(impl, bits, group_size):
    weights, inputs, grid = case_with_its_best([20], bits, group_size, power=1.5)
    actual = impl.channel_scales(weights, inputs, bits, group_size)
    assert not close(actual, grid[19][1], 1e-9), "α = 0.95 was taken, and α = 1 is better: 21 candidates, 1 is the last"
    assert close(actual, grid[20][1], 1e-9), "α = 1 has the least output error here"


@pytest.mark.exercise("channel_scales")
def test_channel_scales_try_every_twentieth(impl):
    weights, inputs, grid = case_with_its_best(range(1, 20, 2), 3)
    errors = [error for error, _ in grid]
    best = errors.index(min(errors))
    actual = impl.channel_scales(weights, inputs, 3)
    assert close(actual, grid[best][1], 1e-9), f"α = {best}/20 has the least output error here: compare all 21"


@pytest.mark.exercise("channel_scales")
def test_channel_scales_are_the_first_among_equals(impl):
    # Weights of zero lose nothing, whatever α.
    actual = impl.channel_scales(torch.zeros(4, 48, dtype=torch.float64), correlated_inputs(n=96), 4)
    ones = torch.ones(48, dtype=torch.float64)
    assert close(actual, ones, 1e-9), "all α have the error 0: the smallest, α = 0, is taken among equals, and c is 1"


@pytest.mark.exercise("channel_scales")
def test_channel_scales_of_inputs_of_one_size_are_one(impl):
    actual = impl.channel_scales(random(4, 16), torch.ones(8, 16, dtype=torch.float64), 4)
    assert close(actual, torch.ones(16).double(), 1e-9), "equal inputs: every α gives scales of 1"


@pytest.mark.exercise("channel_scales")
def test_channel_scales_of_dead_inputs_can_be_divided_by(impl):
    weights, inputs, _ = case_with_its_best([20], 4, power=1.5)
    inputs[:, 7] = 0
    for x in (inputs, torch.zeros_like(inputs)):
        try:
            c = impl.channel_scales(weights, x, 4)
            fine = bool((c > 0).all() and torch.isfinite(c).all())
        except ValueError:  # weights divided by 0 further on
            fine = False
        assert fine, "an input that is always 0 gets channel scale 0, by which nothing can be divided: hold it above"
    assert close(c, torch.ones(48).double(), 1e-9), "if all inputs are 0, c = 1"


@pytest.mark.exercise("channel_scales")
def test_channel_scales_count_a_tiny_mean_as_a_thousandth_of_the_largest(impl):
    # The weights of input 0 are so small that it is best to enlarge them as much as α = 1 does.
    inputs = torch.ones(8, 16, dtype=torch.float64)
    inputs[:, 1:] = 1e-9
    weights = torch.full((4, 16), 1.0, dtype=torch.float64)
    weights[:, 0] = torch.tensor([0.3, 0.25, 0.2, 0.15]) / 1000
    c = impl.channel_scales(weights, inputs, 4)
    share = (c[1] / c[0]).item()
    assert share == pytest.approx(1e-3, rel=1e-9), (
        f"c of the tiny inputs is {share:.3g} of the large one's: a mean below a thousandth counts as a thousandth "
        "(and α = 1 is the best here)"
    )


@pytest.mark.exercise("channel_scales")
def test_channel_scales_refuse_what_cannot_be_rounded(impl):
    weights, inputs = random(4, 16), random(64, 16, seed=1)
    assert_refuses("group_size", impl.channel_scales, weights, inputs, 4, 5)
    assert_refuses("bits", impl.channel_scales, weights, inputs, 1)
    assert_refuses("inputs", impl.channel_scales, weights, inputs[:, :8], 4)


# --- shrunken_scales -------------------------------------------------------------------------------------------------


def shrunken_by_hand(weights, inputs, bits, group_size=None, steps=range(20, 9, -1), worst=False, stored=None):
    """Every group of every row by itself: of these 20ths of absmax the one that moves its outputs least."""
    size = group_size or weights.shape[1]
    result = torch.zeros(len(weights), weights.shape[1] // size, dtype=torch.float64)
    for row in range(len(weights)):
        for g in range(result.shape[1]):
            w, x = weights[row, g * size : (g + 1) * size], inputs[:, g * size : (g + 1) * size]
            tried = []
            for step in steps:
                scale = (w.abs().max() / LARGEST[bits] * (step / 20)).to(stored or w.dtype).double()
                error = ((x @ (nearest(w, scale, bits) - w)) ** 2).sum().item()
                tried.append((-error if worst else error, -step, scale))
            result[row, g] = min(tried)[2]
    return result


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
