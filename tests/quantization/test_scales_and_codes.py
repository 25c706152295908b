"""Grades `nanolm/quantization/absmax.py`, one row: its scale and its codes, as literals."""

import math
from numbers import Integral

import pytest
import torch
from by_hand import close, random
from instead import errors_mean
from refusal import assert_refuses


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def assert_is_tensor(result):
    assert isinstance(result, torch.Tensor), f"a tensor comes back, not a {type(result).__name__}"


def two_rows():
    """Rows of very different size, with the largest absolute value once negative: no shortcut gets both right."""
    return torch.stack([vector(0.5, -1.27, 0.02, 0.3), vector(12.7, 3.0, -6.4, 0.0)])


# --- largest_code ----------------------------------------------------------------------------------------------------


@pytest.mark.exercise("largest_code")
@pytest.mark.parametrize(("bits", "q"), [(8, 127), (7, 63), (4, 7), (3, 3), (2, 1)])
def test_largest_code_is_two_to_the_bits_less_one_less_one(impl, bits, q):
    # 4 bits have 16 patterns: 0, seven below, seven above; the sixteenth, -8, has no positive partner and stays unused.
    actual = impl.largest_code(bits)
    mistakes = {
        "one code too many (one further below zero there is, which is left out)": [2 ** (bits - 1)],
        "it counts all patterns, and half of them are negative codes": [2**bits, 2**bits - 1],
        "in Python ^ is no power but the exclusive or; write 2 ** (bits - 1)": [2 ^ (bits - 1), 2 ^ (bits - 2)],
        "only the sign costs a bit, not two": [2 ** (bits - 2), 2 ** (bits - 2) - 1],
    }
    for mistake, results in mistakes.items():
        assert actual == q or actual not in results, f"{bits} bits: got {actual}, expected {q}: {mistake}"
    assert actual == q, f"{bits} bits: got {actual}, expected {q}"
    assert isinstance(actual, Integral), f"{actual!r} is a {type(actual).__name__}: a code is a whole number, int"


@pytest.mark.exercise("largest_code")
@pytest.mark.parametrize("bits", [1, 0, -4, 9, 16, 2.5, True, None, math.nan])
def test_largest_code_refuses_what_is_not_a_whole_number_from_2_to_8(impl, bits):
    assert_refuses("bits", impl.largest_code, bits)


# --- absmax_scales ---------------------------------------------------------------------------------------------------


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_are_the_largest_absolute_value_of_each_row_over_q(impl):
    # Row 0: 1.27 / 127 = 0.01; its largest *signed* number, 0.5, would give 0.0039. Row 1: 12.7 / 127 = 0.1.
    actual = impl.absmax_scales(two_rows(), 8)
    assert_is_tensor(actual)
    assert actual.numel() == 2, (
        f"{actual.numel()} scale{'s' if actual.numel() > 1 else ''} for two rows: a scale is shared by one row "
        "(take the largest over the last dimension alone)"
    )
    assert actual.dtype == torch.float64, f"scales of float64 weights are float64, not {actual.dtype}"
    assert not close(actual.flatten(), vector(0.1, 0.1)), "one scale for the whole tensor: each row has its own"
    assert not close(actual.flatten(), vector(0.5 / 127, 0.1)), (
        "the scale comes from the largest number, not from the largest absolute value: -1.27 needs a code too"
    )
    assert not close(actual.flatten(), vector(1.27 / 128, 12.7 / 128), 1e-6), "divide by 127, the largest code, not 128"
    assert not close(actual.flatten(), vector(1.27, 12.7)), "that is the largest weight: divide it by 127, its code"
    assert actual.shape == (2, 1), f"shape {tuple(actual.shape)}: keep the last dimension, (2, 1), so that rows divide"
    assert close(actual, torch.tensor([[0.01], [0.1]], dtype=torch.float64)), f"{actual.tolist()}, not [[0.01], [0.1]]"


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_of_four_bits(impl):
    # 1.27 / 7 = 0.18142857; 0.7 / 7 = 0.1.
    for row, scale in ((vector(0.5, -1.27, 0.02), 1.27 / 7), (vector(0.7, -0.23, 0.04, 0.38), 0.1)):
        actual = impl.absmax_scales(row, 4)
        assert close(actual, vector(scale)), f"{row.tolist()}: got {actual.tolist()}, expected {scale:.4f}"


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_of_a_row_of_zeros_is_one(impl):
    weights = torch.stack([vector(0, 0, 0), vector(0.7, 0, -0.1)])
    actual = impl.absmax_scales(weights, 4).flatten()
    assert actual[0] != 0, "a row of zeros has scale 0: the division for its codes is 0 / 0, NaN; give it scale 1"
    assert actual[0] > 0.01, f"a row of zeros has scale {actual[0]:.1g}: a smallest scale is not asked for, but 1"
    assert close(actual, vector(1.0, 0.1)), f"{actual.tolist()}, not [1, 0.1]"


@pytest.mark.exercise("absmax_scales")
@pytest.mark.parametrize("size", [1e-6, 1e-12, 1e-25])
def test_absmax_scales_of_tiny_weights_are_tiny(impl, size):
    actual = impl.absmax_scales(vector(size, -size / 2), 8).item()
    assert actual == pytest.approx(size / 127, rel=1e-6, abs=0), (
        f"only a row of zeros is a case of its own: weights up to {size} have scale {size / 127:.3g}, not {actual:.3g}"
    )


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_of_whole_numbers_reach_the_least_of_them(impl):
    actual = impl.absmax_scales(torch.tensor([-128, 5], dtype=torch.int8), 8).item()
    assert actual == pytest.approx(128 / 127, rel=1e-6), (
        f"|-128| is 128, which int8 cannot hold: make floats of the weights before abs(); the scale is 128 / 127, not "
        f"{actual:.4g}"
    )


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_keep_all_leading_dimensions(impl):
    weights = random(3, 2, 5)
    expected = [[[max(abs(w) for w in row) / 7] for row in rows] for rows in weights.tolist()]
    actual = impl.absmax_scales(weights, 4)
    assert actual.shape == (3, 2, 1), f"shape {tuple(actual.shape)}: (3, 2, 5) weights have scales (3, 2, 1)"
    assert close(actual, torch.tensor(expected, dtype=torch.float64)), "3 · 2 rows, a scale each"


@pytest.mark.exercise("absmax_scales")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_absmax_scales_of_sixteen_bit_weights_are_float32(impl, dtype):
    # 0.5, -1.25 and 0.75 are exact in all of them; 1.25 / 127 is not, and in bfloat16 it would be off by 0.2 %.
    actual = impl.absmax_scales(vector(0.5, -1.25, 0.75).to(dtype), 8)
    assert actual.dtype == torch.float32, f"{dtype} weights have float32 scales, not {actual.dtype}"
    assert close(actual, torch.tensor([1.25 / 127]), 1e-9), (
        f"got {actual.item():.8f}, expected {1.25 / 127:.8f}: divide in float32, 16 bits are too coarse"
    )


@pytest.mark.exercise("absmax_scales")
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_absmax_scales_refuse_weights_that_are_not_finite(impl, wrong):
    assert_refuses("weights", impl.absmax_scales, vector(0.5, wrong, 0.1), 8)


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_refuse_bits_outside_two_to_eight(impl):
    assert_refuses("bits", impl.absmax_scales, vector(0.5, 0.1), 1)
    assert_refuses("bits", impl.absmax_scales, vector(0.5, 0.1), 9)


# --- round_to_codes --------------------------------------------------------------------------------------------------


@pytest.mark.exercise("round_to_codes")
def test_round_to_codes_takes_the_nearest_whole_number(impl):
    # Divided by 0.5: 7, -2.3, 0.4, 3.8.
    actual = impl.round_to_codes(vector(3.5, -1.15, 0.2, 1.9), vector(0.5), 4)
    assert_is_tensor(actual)
    mistakes = {
        "truncated: cutting off the fraction moves every weight towards 0 (3.8 becomes 3); round": [7, -2, 0, 3],
        "floored: every weight moves down (-2.3 becomes -3); round to the nearest": [7, -3, 0, 3],
        "rounded up: every weight moves up (0.4 becomes 1); round to the nearest": [7, -2, 1, 4],
        "multiplied by the scale: a code is weight / scale": [2, -1, 0, 1],
        "these are weights again, code · scale: the codes themselves are asked for": [3.5, -1, 0, 2],
    }
    for mistake, result in mistakes.items():
        assert actual.tolist() != result, mistake
    assert actual.tolist() == [7, -2, 0, 4], f"{actual.tolist()}, not [7, -2, 0, 4]"
    assert actual.dtype == torch.int8, f"codes are int8, not {actual.dtype}"


@pytest.mark.exercise("round_to_codes")
def test_round_to_codes_stays_within_the_symmetric_range(impl):
    # 9 and -9 times the scale do not fit into 4 bits: the nearest codes are 7 and -7.
    actual = impl.round_to_codes(vector(0.9, -0.9, -0.8, 0.72), vector(0.1), 4).tolist()
    assert actual != [9, -9, -8, 7], "no clamp: 9 does not fit into 4 bits"
    assert actual != [7, -8, -8, 7], (
        "clamped to -8 … 7: in a symmetric scheme -8 stays unused, or -w would get another code than w"
    )
    assert actual == [7, -7, -7, 7], f"{actual}, not [7, -7, -7, 7]"
    wide = impl.round_to_codes(vector(1.3, -1.5), vector(0.01), 8).tolist()
    assert wide != [7, -7], "held within -7 … 7 whatever the bits: q is largest_code(bits), 127 for 8"
    assert wide == [127, -127], f"130 and -150 are held at 127 and -127, not {wide} (a byte would wrap around)"


@pytest.mark.exercise("round_to_codes")
def test_round_to_codes_divides_each_row_by_its_own_scale(impl):
    scales = torch.tensor([[0.01], [0.1]], dtype=torch.float64)
    actual = impl.round_to_codes(two_rows(), scales, 8).tolist()
    assert actual[1] != [127] * 3 + [0] and actual[1][:2] != [127, 127], "the scale of row 0 was used for row 1 too"
    assert actual == [[50, -127, 2, 30], [127, 30, -64, 0]], f"{actual}: row 0 is divided by 0.01, row 1 by 0.1"


@pytest.mark.exercise("round_to_codes")
def test_round_to_codes_of_sixteen_bit_weights_is_as_exact_as_of_others(impl):
    # Between 64 and 128 bfloat16 knows halves only: 100.4 would be read as 100.5 and could go either way.
    weights = torch.linspace(-1, 1, 801).bfloat16()
    scales = torch.tensor([1 / 127]).bfloat16()
    actual = impl.round_to_codes(weights, scales, 8)
    expected = [max(-127, min(127, round(w / scales.item()))) for w in weights.double().tolist()]
    assert actual.tolist() == expected, "16-bit weights: divide in float32, their own numbers are too coarse"


@pytest.mark.exercise("round_to_codes")
def test_round_to_codes_takes_scales_of_any_shape_that_fits(impl):
    # (2, 2, 2) weights: a scale for all, (1,); one for each matrix, (2, 1, 1); one for each row, (2, 2, 1).
    weights = torch.tensor([[[1.0, 2], [3, 4]], [[10, 20], [30, 40]]])
    for shape, scales in (((1,), [10]), ((2, 1, 1), [1, 10]), ((2, 2, 1), [1, 2, 10, 20])):
        scales = torch.tensor(scales, dtype=torch.float32).view(shape)
        why = f"scales of shape {shape} can be broadcast to weights of shape (2, 2, 2)"
        with errors_mean(f"{why}, and must not be laid out anew", RuntimeError, IndexError, TypeError):
            actual = impl.round_to_codes(weights, scales, 8)
        expected = (weights.double() / scales.double()).round().flatten().tolist()
        assert actual.flatten().tolist() == expected, f"{why}: got {actual.tolist()}, expected {expected}"


@pytest.mark.exercise("round_to_codes")
def test_round_to_codes_takes_the_even_neighbour_of_a_half(impl):
    actual = impl.round_to_codes(vector(0.5, 1.5, 2.5, -0.5, -1.5), vector(1.0), 4).tolist()
    assert actual not in ([1, 2, 3, 0, -1], [1, 2, 3, -1, -2]), "halves went up: the even neighbour is taken, 2.5 is 2"
    assert actual == [0, 2, 2, 0, -2], f"{actual}: of 0.5, 1.5, 2.5, -0.5 and -1.5 the even neighbours are 0 2 2 0 -2"


@pytest.mark.exercise("round_to_codes")
def test_round_to_codes_refuses_bits_outside_two_to_eight(impl):
    for bits in (1, 9):
        assert_refuses("bits", impl.round_to_codes, vector(0.5, 0.1), vector(0.1), bits)
