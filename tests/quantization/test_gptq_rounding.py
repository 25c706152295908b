"""Grades `nanolm/quantization/gptq_rounding.py`: gptq against least squares solved from scratch."""

import pytest
import torch
from by_hand import close, name_the_mistake, random
from instead import errors_mean
from refusal import assert_refuses
from rounding_by_hand import LARGEST, correlated_inputs, error_of, nearest, restored, rounded

from course.grading import seeds

# --- output_error ----------------------------------------------------------------------------------------------------


@pytest.mark.exercise("output_error")
def test_output_error_weighs_each_column_by_its_inputs(impl):
    # Outputs are (1, 1) · (3, 4) = 7 and (1, 0) · (3, 4) = 3; with 3 in place of 4 they are 6 and 3: √1 / √58.
    weights, approximation = torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 3.0]])
    inputs = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    actual = impl.output_error(weights, approximation, inputs)
    assert isinstance(actual, float), f"a float, not a {type(actual).__name__}"
    mistakes = {
        "that is the error of the weights: multiply by X first": 0.2,
        "relative to the approximation's outputs: it is those of the weights that count": 1 / 45**0.5,
        "the root is missing: these are squares, 1/58": 1 / 58,
        "the distance alone: divide by the size of the outputs": 1,
        "sums of absolute values: squares are summed": 1 / 10,
        "the largest difference over the largest output: squares are summed": 1 / 7,
        "the mean of the positions' errors: one number for all of them": 1 / 14,
    }
    for mistake, result in mistakes.items():
        assert actual != pytest.approx(result, abs=1e-9), f"{actual:.4f}, not √1 / √58: {mistake}"
    assert actual == pytest.approx((1 / 58) ** 0.5, abs=1e-6), f"{actual}, not √1 / √58"


@pytest.mark.exercise("output_error")
def test_output_error_of_a_column_that_is_never_used_is_zero(impl):
    weights, inputs = random(3, 4), random(20, 4, seed=1)
    inputs[:, 2] = 0
    wrong = weights.clone()
    wrong[:, 2] += 100
    with errors_mean("inputs are (n, D) and weights (out, D): the outputs are X · Wᵀ", RuntimeError):
        actual = impl.output_error(weights, wrong, inputs)
    assert actual == 0, "the inputs of column 2 are all 0: its error moves nothing"


@pytest.mark.exercise("output_error")
def test_output_error_equals_its_definition(impl):
    weights, inputs = random(5, 48), correlated_inputs()
    approximation = rounded(weights, 3)
    actual, expected = impl.output_error(weights, approximation, inputs), error_of(weights, approximation, inputs)
    cancelling = ((inputs @ (weights - approximation).T).sum() / (inputs @ weights.T).norm()).abs().item()
    assert actual != pytest.approx(cancelling, rel=1e-9), "errors up and down do not cancel: square them first"
    assert actual == pytest.approx(expected), f"{actual}, not ‖X(W - Ŵ)ᵀ‖ / ‖XWᵀ‖ = {expected}"


@pytest.mark.exercise("output_error")
def test_output_error_is_taken_in_float64(impl):
    weights, inputs = random(4, 24).float(), random(96, 24, seed=1).float()
    approximation = rounded(weights.double(), 4).float()
    actual = impl.output_error(weights, approximation, inputs)
    expected = error_of(weights.double(), approximation.double(), inputs.double())
    assert actual == pytest.approx(expected, rel=1e-4), f"{actual}, not ‖X(W - Ŵ)ᵀ‖ / ‖XWᵀ‖ = {expected}"
    assert actual == pytest.approx(expected, rel=1e-11), (
        f"got {actual!r}, expected {expected!r}: take everything in float64"
    )


@pytest.mark.exercise("output_error")
def test_output_error_refuses_outputs_of_zero(impl):
    assert_refuses("outputs|weights|inputs", impl.output_error, torch.ones(2, 3), torch.zeros(2, 3), torch.zeros(4, 3))


# --- inverse_factor --------------------------------------------------------------------------------------------------


@pytest.mark.exercise("inverse_factor")
@pytest.mark.parametrize("damping", [0.1, 0.01, 2.0])
def test_inverse_factor_times_itself_is_the_inverse_of_the_damped_products(impl, damping):
    inputs, one = correlated_inputs(D=8), torch.eye(8, dtype=torch.float64)
    products = inputs.T @ inputs
    mean, largest = products.diagonal().mean(), products.diagonal().max()
    with errors_mean("X is (n, D) and M = XᵀX + λI (D, D), which has a factor", RuntimeError):
        U = impl.inverse_factor(inputs, damping)
    assert U.shape == (8, 8), f"shape {tuple(U.shape)}, not (D, D) = (8, 8)"
    assert U.dtype == torch.float64, f"U is float64, not {U.dtype}"
    M = products + damping * mean * one

    def is_inverse_of(other):
        return close(U.T @ U @ other, one, 1e-7)

    inverse = torch.linalg.inv(M)
    size = inverse.abs().max().item()
    assert not close(U, inverse, 1e-9 * size), "that is M's inverse itself: its triangular factor is wanted"
    lower = torch.linalg.cholesky(inverse)
    assert not close(U, lower, 1e-9 * size**0.5), "that is the lower factor; U is the *upper*"
    assert close(U, U.triu()), "U is the *upper* factor: nothing stands below its diagonal"
    assert not close(U.T @ U / M, torch.ones_like(M), 1e-9), "UᵀU is M: the factor of its *inverse* is wanted"
    mistakes = {
        "no damping: add λ to M's diagonal": products,
        "damping itself was added: λ is damping times the mean of the diagonal": products + damping * one,
        "damping times the largest of the diagonal: it is its mean": products + damping * largest * one,
        "damping times the sum of the diagonal: it is its mean": products + damping * 8 * mean * one,
        "λ was added to all of M: only to its diagonal": products + damping * mean,
        "products divided by n, and λ not: M is XᵀX": products / 512 + damping * mean * one,
    }
    if damping != 0.01:
        mistakes["damping is not used: 0.01 was taken"] = products + 0.01 * mean * one
    for mistake, other in mistakes.items():
        assert not is_inverse_of(other), mistake
    assert is_inverse_of(M), "UᵀU is not the inverse of M = XᵀX + λI"


@pytest.mark.exercise("inverse_factor")
def test_inverse_factor_of_zeros_is_the_identity(impl):
    with errors_mean("inputs of zero: M is 0 too and has no inverse; by the docstring it is then I", RuntimeError):
        actual = impl.inverse_factor(torch.zeros(5, 3))
    assert close(actual, torch.eye(3, dtype=torch.float64)), f"inputs of zero make M the identity; U is {actual}"


@pytest.mark.exercise("inverse_factor")
def test_inverse_factor_works_in_float64_whatever_its_inputs_are(impl):
    # (1 + 2^-13)² = 1 + 2^-12 + 2^-26 needs more digits than float32 has, and with so little damping they count.
    inputs = torch.tensor([[1.0, 1.0 + 2**-13]], dtype=torch.float32)
    with errors_mean("take the products in float64: float32 has too few digits", RuntimeError):
        actual = impl.inverse_factor(inputs, 1e-7).double()
    exact = inputs.double().T @ inputs.double()
    exact += 1e-7 * exact.diagonal().mean() * torch.eye(2, dtype=torch.float64)
    assert close(actual.T @ actual @ exact, torch.eye(2, dtype=torch.float64), 1e-6), (
        "take the products in float64: float32 has too few digits"
    )


@pytest.mark.exercise("inverse_factor")
@pytest.mark.parametrize("damping", [0.0, -0.01, float("nan")])
def test_inverse_factor_refuses_damping_that_is_not_above_zero(impl, damping):
    assert_refuses("damping", impl.inverse_factor, random(8, 3), damping)


# --- gptq ------------------------------------------------------------------------------------------------------------


def damped(inputs, damping=0.01):
    M = inputs.T @ inputs
    return M + damping * M.diagonal().mean() * torch.eye(len(M), dtype=M.dtype)


def gptq_by_least_squares(weights, inputs, bits, group_size=None, damping=0.01):
    """Column after column; before each the columns left are solved anew for the least error of the outputs.

    With the first j columns fixed and off by E, ‖X(Q - W)ᵀ‖² + λ‖Q - W‖² is least where the others move by
    -E · M[:j, j:] · M[j:, j:]⁻¹.
    """
    M, D, result, now = damped(inputs, damping), weights.shape[1], weights.clone(), weights
    for j in range(D):
        if j:
            off = result[:, :j] - weights[:, :j]
            now = weights.clone()
            now[:, j:] -= torch.linalg.solve(M[j:, j:], (off @ M[:j, j:]).T).T
        if j % (group_size or D) == 0:
            step = now[:, j : j + (group_size or D)].abs().amax(1) / LARGEST[bits]
        result[:, j] = nearest(now[:, j], step, bits)
    return result


def gptq_with_a_mistake(
    weights, inputs, bits, of=torch.linalg.inv, sign=1, power=1, only_next=False, damping=0.01, cut=False
):
    """What comes out with the factor of another matrix, the lower factor, the wrong sign, or without the division."""
    U = torch.linalg.cholesky(of(damped(inputs, damping)), upper=True)
    now, result, step = weights.clone(), weights.clone(), weights.abs().amax(1) / LARGEST[bits]
    for j in range(weights.shape[1]):
        result[:, j] = (now[:, j] / step).trunc() * step if cut else nearest(now[:, j], step, bits)
        off = (now[:, j] - result[:, j]) / U[j, j] ** power
        left = slice(j + 1, j + 2) if only_next else slice(j + 1, None)
        now[:, left] -= sign * torch.outer(off, U[j, left])
    return result


@pytest.fixture
def the_same_inputs():
    """Inputs that are the same in every run: in most draws GPTQ gains more than half, in a few less than a fifth."""
    before = seeds.use(0)
    yield
    seeds.use(before)


@pytest.mark.exercise("gptq")
@pytest.mark.parametrize("bits", [4, 3])
def test_gptq_equals_solving_for_the_columns_left_at_every_step(impl, bits):
    weights, inputs = random(6, 48), correlated_inputs()
    codes, scales = impl.gptq(weights, inputs, bits)
    assert codes.dtype == torch.int8, f"(codes, scales) in this order, codes as int8; the first is {codes.dtype}"
    assert scales.shape == (6, 1), f"scales of shape {tuple(scales.shape)}: one a row without groups, (6, 1)"
    actual, case = restored(codes, scales), (weights, inputs, bits)
    suspects = {
        "that is plain rounding: the error of a column must move the columns after it (and does not with the lower "
        "factor, whose rows are 0 right of the diagonal)": rounded(weights, bits),
        "errors are added: take them *out* of the columns left": gptq_with_a_mistake(*case, sign=-1),
        "the error is not divided by U[j, j]": gptq_with_a_mistake(*case, power=0),
        "U is the factor of M: it must be that of M's inverse": gptq_with_a_mistake(*case, of=torch.clone),
        "the next column alone took the error over: all columns left do": gptq_with_a_mistake(*case, only_next=True),
        "the error is divided by U[j, j] squared": gptq_with_a_mistake(*case, power=2),
        "columns are cut off to codes: round to the nearest": gptq_with_a_mistake(*case, cut=True),
        "damping is not used: M has none": gptq_with_a_mistake(*case, damping=1e-12),
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
    assert codes.tolist() == [[7, 3, 2]], f"codes {codes.tolist()}, not [[7, 3, 2]]"
    assert close(scales, torch.tensor([[0.1]], dtype=torch.float64)), f"scales {scales.tolist()}, not 0.7 / 7"


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
    expected = gptq_by_least_squares(weights, inputs, bits, group_size)
    assert close(restored(codes, scales), expected, 1e-9), "with groups: not what least squares gives column by column"


@pytest.mark.exercise("gptq")
def test_gptq_uses_the_damping_that_it_is_given(impl):
    weights, inputs = random(6, 48), correlated_inputs()
    actual = restored(*impl.gptq(weights, inputs, 3, None, 0.5))
    usual, expected = (gptq_by_least_squares(weights, inputs, 3, None, damping) for damping in (0.01, 0.5))
    assert not close(actual, usual, 1e-9), "damping is not used: with 0.5 the result is that of 0.01"
    assert close(actual, expected, 1e-9), "with damping 0.5: not what least squares gives column by column"


@pytest.mark.exercise("gptq")
def test_gptq_chooses_codes_for_the_scales_as_stored(impl):
    # Inputs with nothing in common: plain rounding. 127.457 / 127 is 1.0036, in bfloat16 1, by which 100.6 is 101.
    weights = torch.tensor([[127.457, 100.6, -101.4]], dtype=torch.float64)
    codes, scales = impl.gptq(weights, torch.eye(3, dtype=torch.float64), 8, scale_dtype=torch.bfloat16)
    assert scales.dtype == torch.bfloat16, f"scales are asked for in bfloat16 and come as {scales.dtype}"
    assert codes.tolist() != [[127, 100, -101]], "codes belong to the scale before it was rounded: round that first"
    assert codes.tolist() == [[127, 101, -101]], f"codes {codes.tolist()}, not [[127, 101, -101]]"


@pytest.mark.exercise("gptq")
def test_gptq_makes_up_for_the_error_that_the_stored_scale_leaves(impl):
    # Inputs are equal, so column 1 takes over column 0's error. By scale 1.0036, 127.457 has none; stored is 1, and
    # 0.457 are left, which make 50.3 to 50.75 (damping 0.01): code 51.
    weights = torch.tensor([[127.457, 50.3]], dtype=torch.float64)
    codes, _ = impl.gptq(weights, torch.ones(1, 2, dtype=torch.float64), 8, scale_dtype=torch.bfloat16)
    assert codes.tolist() != [[127, 50]], "the error is what is left by the scale *as stored*, and not by the other one"
    assert codes.tolist() == [[127, 51]], f"codes {codes.tolist()}, not [[127, 51]]"


@pytest.mark.exercise("gptq")
@pytest.mark.parametrize("bits", [4, 3])
@pytest.mark.parametrize("group_size", [None, 16])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.usefixtures("the_same_inputs")
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
