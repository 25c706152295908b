"""Grades `channel_scales` of `nanolm/quantization/awq_rounding.py` against a grid by hand."""

import pytest
import torch
from by_hand import close, random
from refusal import assert_refuses
from rounding_by_hand import candidates, channel_scales_grid, correlated_inputs, error_of, moved, rounded


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


def why_not(i, best, grid, weights, inputs, bits, group_size):
    """What to say of α = i/20 where another is the best: which mistakes would have taken it in this case."""
    scales, one = [c for _, c in grid], torch.eye(weights.shape[1], dtype=torch.float64)
    criteria = {
        "the error of the weights was compared, and not that of the outputs": [
            moved(weights, one, bits, group_size, c) for c in scales
        ],
        "Ŵ was not divided by c before": [
            error_of(weights, rounded(weights * c, bits, group_size), inputs) for c in scales
        ],
        "the largest error was taken": [-error for error, _ in grid],
    }
    if i == 0:
        upside_down = [moved(weights, inputs, bits, group_size, 1 / c) for c in scales]
        criteria["all scales were upside down, m^-α"] = upside_down
    reasons = [why for why, errors in criteria.items() if errors.index(min(errors)) == i]
    reasons.append("not all 21 were compared")
    return f"that is α = {i}/20, and {best}/20 has a smaller output error. Perhaps {', or '.join(reasons)}"


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
    if close(actual, right, 1e-9):
        return
    wrong_sizes = {
        "m is the largest |input| of a column: it is their mean": inputs.abs().amax(dim=0),
        "m is the root of the mean square: it is the mean of the absolute values": (inputs**2).mean(dim=0) ** 0.5,
        "m is the mean of the inputs with their signs: take their absolute values": inputs.mean(dim=0).abs(),
    }
    suspects = [
        ("not divided by √(largest · smallest): the scales lie around 1", m ** (alpha / 20)),
        ("divided by largest · smallest: its root is missing", right / (m.max() * m.min()) ** (alpha / 40)),
        *[(why_not(i, alpha, grid, weights, inputs, bits, group_size), c) for i, (_, c) in enumerate(grid)],
        *[("channel scales are upside down: large inputs get large ones", 1 / c) for _, c in grid[1:]],
        *[(why, c) for why, sizes in wrong_sizes.items() for c in candidates(sizes)[1:]],
    ]
    found = [why for why, c in suspects if close(actual, c, 1e-9)]
    pytest.fail((found or ["not m^α / √(largest · smallest) of the α with the least output error"])[0])


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
