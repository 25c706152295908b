"""Grades `gptq_rounding` and `awq_rounding`: gptq against least squares from scratch, awq against a grid by hand."""

import copy

import pytest
import torch
from by_hand import close, name_the_mistake, random
from refusal import assert_refuses
from rounding_by_hand import LARGEST, rounded
from tiny_models import tiny_model, tokens_of

from nanolm.model import quantize_calibrated, quantize_model
from nanolm.quantization import awq, awq_linear, gptq_linear, output_error


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


# --- output_error ------------------------------------------------------------------------------------------------


@pytest.mark.exercise("output_error")
def test_output_error_weighs_each_column_by_its_inputs(impl):
    # Outputs are (1, 1) · (3, 4) = 7 and (1, 0) · (3, 4) = 3; with 3 in place of 4 they are 6 and 3: √1 / √58.
    weights, approximation = torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 3.0]])
    inputs = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    actual = impl.output_error(weights, approximation, inputs)
    assert actual != pytest.approx(0.2, abs=1e-9), "that is the error of the weights: multiply by X first"
    assert actual == pytest.approx((1 / 58) ** 0.5, abs=1e-12), f"{actual}, not √1 / √58"


@pytest.mark.exercise("output_error")
def test_output_error_of_a_column_that_is_never_used_is_zero(impl):
    weights, inputs = random(3, 4), random(20, 4, seed=1)
    inputs[:, 2] = 0
    wrong = weights.clone()
    wrong[:, 2] += 100
    assert impl.output_error(weights, wrong, inputs) == 0, "the inputs of column 2 are all 0: its error moves nothing"


@pytest.mark.exercise("output_error")
def test_output_error_equals_its_definition(impl):
    weights, inputs = random(5, 48), correlated_inputs()
    approximation = rounded(weights, 3)
    assert impl.output_error(weights, approximation, inputs) == pytest.approx(error_of(weights, approximation, inputs))


@pytest.mark.exercise("output_error")
def test_output_error_refuses_outputs_of_zero(impl):
    assert_refuses("outputs", impl.output_error, torch.ones(2, 3), torch.zeros(2, 3), torch.zeros(4, 3))


# --- inverse_factor ----------------------------------------------------------------------------------------------


@pytest.mark.exercise("inverse_factor")
def test_inverse_factor_times_itself_is_the_inverse_of_the_damped_products(impl):
    inputs = correlated_inputs(D=8)
    U = impl.inverse_factor(inputs, 0.1)
    assert close(U, U.triu()), "U is the *upper* factor: nothing stands below its diagonal"
    M = inputs.T @ inputs
    M = M + 0.1 * M.diagonal().mean() * torch.eye(8, dtype=torch.float64)
    assert not close(U.T @ U / M, torch.ones_like(M), 1e-9), "UᵀU is M: the factor of its *inverse* is wanted"
    assert close(U.T @ U @ M, torch.eye(8, dtype=torch.float64), 1e-9), "UᵀU is not the inverse of M"


@pytest.mark.exercise("inverse_factor")
def test_inverse_factor_of_zeros_is_the_identity(impl):
    assert close(impl.inverse_factor(torch.zeros(5, 3)), torch.eye(3, dtype=torch.float64))


# --- gptq --------------------------------------------------------------------------------------------------------


def damped(inputs, damping=0.01):
    M = inputs.T @ inputs
    return M + damping * M.diagonal().mean() * torch.eye(len(M), dtype=M.dtype)


def gptq_by_least_squares(weights, inputs, bits, group_size=None):
    """Column after column; before each the columns left are solved anew for the least error of the outputs.

    With the first j columns fixed and off by E, ‖X(Q - W)ᵀ‖² + λ‖Q - W‖² is least where the others move by
    -E · M[:j, j:] · M[j:, j:]⁻¹.
    """
    M, D, result, now = damped(inputs), weights.shape[1], weights.clone(), weights
    for j in range(D):
        if j:
            off = result[:, :j] - weights[:, :j]
            now = weights.clone()
            now[:, j:] -= torch.linalg.solve(M[j:, j:], (off @ M[:j, j:]).T).T
        if j % (group_size or D) == 0:
            step = now[:, j : j + (group_size or D)].abs().amax(1) / LARGEST[bits]
        result[:, j] = nearest(now[:, j], step, bits)
    return result


def nearest(column, step, bits):
    return (column / step).round().clamp(-LARGEST[bits], LARGEST[bits]) * step


def gptq_with_a_mistake(weights, inputs, bits, of=torch.linalg.inv, upper=True, sign=1, divide=True):
    """What comes out with the factor of another matrix, the lower factor, the wrong sign, or without the division."""
    U = torch.linalg.cholesky(of(damped(inputs)), upper=upper)
    now, result, step = weights.clone(), weights.clone(), weights.abs().amax(1) / LARGEST[bits]
    for j in range(weights.shape[1]):
        result[:, j] = nearest(now[:, j], step, bits)
        off = (now[:, j] - result[:, j]) / (U[j, j] if divide else 1)
        now[:, j + 1 :] -= sign * torch.outer(off, U[j, j + 1 :])
    return result


@pytest.mark.exercise("gptq")
@pytest.mark.parametrize("bits", [4, 3])
def test_gptq_equals_solving_for_the_columns_left_at_every_step(impl, bits):
    weights, inputs = random(6, 48), correlated_inputs()
    actual, case = restored(*impl.gptq(weights, inputs, bits)), (weights, inputs, bits)
    suspects = {
        "that is plain rounding: the error of a column must move the columns after it": rounded(weights, bits),
        "errors are added: take them *out* of the columns left": gptq_with_a_mistake(*case, sign=-1),
        "the error is not divided by U[j, j]": gptq_with_a_mistake(*case, divide=False),
        "U is the factor of M: it must be that of M's inverse": gptq_with_a_mistake(*case, of=torch.clone),
    }
    mistake = name_the_mistake(actual, suspects, "the columns left are not moved to where the outputs change least")
    assert close(actual, gptq_by_least_squares(*case), 1e-9), mistake


@pytest.mark.exercise("gptq")
def test_gptq_of_the_worked_example(impl):
    # Scale 0.7 / 7 = 0.1. Inputs 2 and 3 are equal: 0.26 becomes 0.3, and the 0.04 too much are taken out of the third,
    # 0.26 - 0.04 / 1.01 = 0.2204 (damping 0.01), which becomes 0.2. Plain rounding gives 7, 3, 3.
    weights = torch.tensor([[0.7, 0.26, 0.26]], dtype=torch.float64)
    inputs = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
    codes, scales = impl.gptq(weights, inputs, 4)
    assert codes.tolist() != [[7, 3, 3]], "that is plain rounding: the third weight must make up for the second"
    assert codes.tolist() == [[7, 3, 2]] and close(scales, torch.tensor([[0.1]], dtype=torch.float64))


@pytest.mark.exercise("gptq")
@pytest.mark.parametrize(("bits", "group_size"), [(4, 16), (2, 8), (3, 24)])
def test_gptq_takes_a_group_s_scales_when_it_is_reached(impl, bits, group_size):
    weights, inputs = random(6, 48), correlated_inputs()
    codes, scales = impl.gptq(weights, inputs, bits, group_size)
    original = weights.view(6, -1, group_size).abs().amax(-1) / LARGEST[bits]
    assert scales.shape == original.shape, f"shape {tuple(scales.shape)}: one scale for each group of each row"
    assert not close(scales, original, 1e-9), (
        "a group's scales are those of its weights when it is reached, not those of the original weights"
    )
    assert close(restored(codes, scales), gptq_by_least_squares(weights, inputs, bits, group_size), 1e-9)


@pytest.mark.exercise("gptq")
@pytest.mark.parametrize("bits", [4, 3])
@pytest.mark.parametrize("group_size", [None, 16])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gptq_beats_plain_rounding_in_the_output(impl, bits, group_size, seed):
    weights, inputs = random(32, 48, seed=seed + 10), correlated_inputs(seed=seed)
    unseen = correlated_inputs(n=2048, seed=seed)[512:]  # other positions of the same text
    plain, ours = rounded(weights, bits, group_size), restored(*impl.gptq(weights, inputs, bits, group_size))
    for name, x in (("the calibration inputs", inputs), ("inputs that it has not seen", unseen)):
        before, after = error_of(weights, plain, x), error_of(weights, ours, x)
        assert after < 0.8 * before, f"on {name} the output is off by {after:.3f}, with plain rounding by {before:.3f}"


@pytest.mark.exercise("gptq")
def test_gptq_with_inputs_that_have_nothing_in_common_is_plain_rounding(impl):
    # XᵀX is diagonal: no column can make up for another.
    weights, inputs = random(4, 16), torch.diag(torch.linspace(1, 3, 16, dtype=torch.float64))
    codes, scales = impl.gptq(weights, inputs, 4)
    assert codes.dtype == torch.int8 and scales.shape == (4, 1)
    assert close(restored(codes, scales), rounded(weights, 4), 1e-9)


@pytest.mark.exercise("gptq")
def test_gptq_leaves_its_arguments_as_they_were(impl):
    weights, inputs = random(4, 16), random(64, 16, seed=1)
    before = weights.clone(), inputs.clone()
    impl.gptq(weights, inputs, 4)
    assert torch.equal(weights, before[0]), "the weights were changed in place: work on a copy"
    assert torch.equal(inputs, before[1])


@pytest.mark.exercise("gptq")
def test_gptq_of_few_or_dead_inputs_is_finite(impl):
    weights = random(4, 16)
    few, dead, none = random(3, 16, seed=1), random(64, 16, seed=1), torch.zeros(5, 16, dtype=torch.float64)
    dead[:, 7] = 0
    for name, inputs in (("3 positions for 16 columns", few), ("a dead channel", dead), ("inputs of zero", none)):
        codes, scales = impl.gptq(weights, inputs, 4)
        assert torch.isfinite(scales).all() and codes.abs().max() <= 7, f"{name}: M cannot be inverted undamped"
    assert close(restored(*impl.gptq(weights, none, 4)), rounded(weights, 4), 1e-9), "nothing read: plain rounding"


@pytest.mark.exercise("gptq")
def test_gptq_refuses_what_it_cannot_do(impl):
    weights, inputs = random(4, 16), random(64, 16, seed=1)
    assert_refuses("group_size", impl.gptq, weights, inputs, 4, 5)
    assert_refuses("bits", impl.gptq, weights, inputs, 1)
    assert_refuses("damping", impl.gptq, weights, inputs, 4, None, 0.0)
    assert_refuses("inputs", impl.gptq, weights, inputs[:, :8], 4)
    assert_refuses("inputs", impl.gptq, weights, inputs * torch.nan, 4)
    assert_refuses("weights", impl.gptq, weights * torch.nan, inputs, 4)


# --- channel_scales ----------------------------------------------------------------------------------------------


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


# --- shrunken_scales ---------------------------------------------------------------------------------------------


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


# --- awq ---------------------------------------------------------------------------------------------------------


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


# --- layers and models -------------------------------------------------------------------------------------------


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
