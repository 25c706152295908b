"""Grades `nanolm/quantization/absmax.py`: worked examples as literals, and a loop in plain Python as the oracle."""

import math

import pytest
import torch
from by_hand import close, random
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal import assert_refuses
from rounding_by_hand import codes_by_hand

from nanolm.quantization import absmax as quantization


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def two_rows():
    """Rows of very different size, with the largest absolute value once negative: no shortcut gets both right."""
    return torch.stack([vector(0.5, -1.27, 0.02, 0.3), vector(12.7, 3.0, -6.4, 0.0)])


def outlier_rows(seed=0):
    """A [64, 256] matrix of normal numbers, three rows of it 40 times as large."""
    weights = random(64, 256, seed=seed)
    weights[[3, 20, 41]] *= 40
    return weights


# --- largest_code ------------------------------------------------------------------------------------------------


@pytest.mark.exercise("largest_code")
@pytest.mark.parametrize(("bits", "q"), [(8, 127), (7, 63), (4, 7), (3, 3), (2, 1)])
def test_largest_code_is_two_to_the_bits_less_one_less_one(impl, bits, q):
    # 4 bits have 16 patterns: 0, seven below, seven above; the sixteenth, -8, has no positive partner and stays unused.
    actual = impl.largest_code(bits)
    assert actual != 2 ** (bits - 1), (
        f"{actual} is one code too many: {bits} bits reach {q} above zero (and one further below, which is left out)"
    )
    assert actual not in (2**bits, 2**bits - 1), f"{actual} counts all patterns: half of them are negative codes"
    assert actual == q, f"{bits} bits: {actual}, not {q}"


@pytest.mark.exercise("largest_code")
@pytest.mark.parametrize("bits", [1, 0, -4, 9, 16, 2.5, True, None, math.nan])
def test_largest_code_refuses_what_is_not_a_whole_number_from_2_to_8(impl, bits):
    assert_refuses("bits", impl.largest_code, bits)


# --- absmax_scales -----------------------------------------------------------------------------------------------


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_are_the_largest_absolute_value_of_each_row_over_q(impl):
    # Row 0: 1.27 / 127 = 0.01; its largest *signed* number, 0.5, would give 0.0039. Row 1: 12.7 / 127 = 0.1.
    actual = impl.absmax_scales(two_rows(), 8)
    assert actual.numel() == 2, (
        f"{actual.numel()} scale{'s' if actual.numel() > 1 else ''} for two rows: a scale is shared by one row "
        "(take the largest over the last dimension alone)"
    )
    assert not close(actual.flatten(), vector(0.1, 0.1)), "one scale for the whole tensor: each row has its own"
    assert actual.flatten()[0] > 0.004, (
        "the scale comes from the largest number, not from the largest absolute value: -1.27 needs a code too"
    )
    assert not close(actual.flatten(), vector(1.27 / 128, 12.7 / 128), 1e-6), "divide by 127, the largest code, not 128"
    assert actual.shape == (2, 1), f"shape {tuple(actual.shape)}: keep the last dimension, (2, 1), so that rows divide"
    assert close(actual, torch.tensor([[0.01], [0.1]], dtype=torch.float64)), f"{actual.tolist()}, not [[0.01], [0.1]]"


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_of_four_bits(impl):
    # 1.27 / 7 = 0.18142857; 0.7 / 7 = 0.1.
    for row, scale in ((vector(0.5, -1.27, 0.02), 1.27 / 7), (vector(0.7, -0.23, 0.04, 0.38), 0.1)):
        actual = impl.absmax_scales(row, 4)
        assert close(actual, vector(scale)), f"{row.tolist()}: {actual.tolist()}, not {scale:.4f}"


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_of_a_row_of_zeros_is_one(impl):
    weights = torch.stack([vector(0, 0, 0), vector(0.7, 0, -0.1)])
    actual = impl.absmax_scales(weights, 4).flatten()
    assert actual[0] != 0, "a row of zeros has scale 0: the division for its codes is 0 / 0, NaN; give it scale 1"
    assert close(actual, vector(1.0, 0.1)), f"{actual.tolist()}, not [1, 0.1]"


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_keep_all_leading_dimensions(impl):
    weights = random(3, 2, 5)
    expected = [[[max(abs(w) for w in row) / 7] for row in rows] for rows in weights.tolist()]
    assert close(impl.absmax_scales(weights, 4), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.exercise("absmax_scales")
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_absmax_scales_refuse_weights_that_are_not_finite(impl, wrong):
    assert_refuses("weights", impl.absmax_scales, vector(0.5, wrong, 0.1), 8)


@pytest.mark.exercise("absmax_scales")
def test_absmax_scales_refuse_bits_outside_two_to_eight(impl):
    assert_refuses("bits", impl.absmax_scales, vector(0.5, 0.1), 1)
    assert_refuses("bits", impl.absmax_scales, vector(0.5, 0.1), 9)


# --- round_to_codes ----------------------------------------------------------------------------------------------


@pytest.mark.exercise("round_to_codes")
def test_round_to_codes_takes_the_nearest_whole_number(impl):
    # Divided by 0.5: 7, -2.3, 0.4, 3.8.
    actual = impl.round_to_codes(vector(3.5, -1.15, 0.2, 1.9), vector(0.5), 4)
    mistakes = {
        "truncated: cutting off the fraction moves every weight towards 0 (3.8 becomes 3); round": [7, -2, 0, 3],
        "floored: every weight moves down (-2.3 becomes -3); round to the nearest": [7, -3, 0, 3],
        "rounded up: every weight moves up (0.4 becomes 1); round to the nearest": [7, -2, 1, 4],
        "multiplied by the scale: a code is weight / scale": [2, -1, 0, 1],
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
    assert wide == [127, -127], f"130 and -150 are held at 127 and -127, not {wide} (a byte would wrap around)"


@pytest.mark.exercise("round_to_codes")
def test_round_to_codes_divides_each_row_by_its_own_scale(impl):
    scales = torch.tensor([[0.01], [0.1]], dtype=torch.float64)
    actual = impl.round_to_codes(two_rows(), scales, 8).tolist()
    assert actual == [[50, -127, 2, 30], [127, 30, -64, 0]], f"{actual}: row 0 is divided by 0.01, row 1 by 0.1"


@pytest.mark.exercise("round_to_codes")
def test_round_to_codes_of_sixteen_bit_weights_is_as_exact_as_of_others(impl):
    # Between 64 and 128 bfloat16 knows halves only: 100.4 would be read as 100.5 and could go either way.
    weights = torch.linspace(-1, 1, 801).bfloat16()
    scales = torch.tensor([1 / 127]).bfloat16()
    actual = impl.round_to_codes(weights, scales, 8)
    expected = [max(-127, min(127, round(w / scales.item()))) for w in weights.double().tolist()]
    assert actual.tolist() == expected, "16-bit weights: divide in float32, their own numbers are too coarse"


def test_round_to_codes_takes_the_even_neighbour_of_a_half():
    assert quantization.round_to_codes(vector(0.5, 1.5, 2.5, -0.5, -1.5), vector(1.0), 4).tolist() == [0, 2, 2, 0, -2]


# --- quantize ----------------------------------------------------------------------------------------------------


@pytest.mark.exercise("quantize")
def test_quantize_gives_the_int8_codes_of_the_worked_example(impl):
    # 1.27 / 127 = 0.01, and all three weights are whole multiples of it: nothing is lost.
    codes, scales = impl.quantize(vector(0.5, -1.27, 0.02), 8)
    assert close(scales, vector(0.01)), f"scale {scales.tolist()}, not 0.01 = 1.27 / 127"
    assert codes.tolist() == [50, -127, 2], f"codes {codes.tolist()}, not [50, -127, 2]"


@pytest.mark.exercise("quantize")
def test_quantize_gives_the_int4_codes_of_the_worked_examples(impl):
    # 1.27 / 7 = 0.181; 0.5 / 0.181 = 2.76 and 0.02 / 0.181 = 0.11.
    codes, scales = impl.quantize(vector(0.5, -1.27, 0.02), 4)
    assert close(scales, vector(0.1814), 1e-4), f"scale {scales.tolist()}, not 0.181 = 1.27 / 7 (levels are -7 … 7)"
    assert codes.tolist() == [3, -7, 0], f"codes {codes.tolist()}, not [3, -7, 0]"
    codes, scales = impl.quantize(vector(0.7, -0.23, 0.04, 0.38), 4)
    assert close(scales, vector(0.1)) and codes.tolist() == [7, -2, 0, 4], f"{codes.tolist()}, scale {scales.tolist()}"


@pytest.mark.exercise("quantize")
def test_quantize_gives_each_row_its_own_scale(impl):
    codes, scales = impl.quantize(two_rows(), 8)
    assert codes.tolist() != [[5, -13, 0, 3], [127, 30, -64, 0]], "one scale for the whole tensor: row 0 has lost most"
    assert codes.tolist() == [[50, -127, 2, 30], [127, 30, -64, 0]], f"codes {codes.tolist()}"
    assert scales.shape == (2, 1), f"one scale a row has shape (rows, 1), not {tuple(scales.shape)}"


@pytest.mark.exercise("quantize")
def test_quantize_gives_each_group_its_own_scale(impl):
    # Two groups of two in each row: (0.5, -1.27 | 0.02, 0.3) and (12.7, 3.0 | -6.4, 0.0), q = 7.
    codes, scales = impl.quantize(two_rows(), 4, group_size=2)
    expected = torch.tensor([[1.27 / 7, 0.3 / 7], [12.7 / 7, 6.4 / 7]], dtype=torch.float64)
    interleaved = torch.tensor([[0.5 / 7, 1.27 / 7], [12.7 / 7, 3.0 / 7]], dtype=torch.float64)
    assert scales.shape == (2, 2), f"scales of two groups in two rows have shape (2, 2), not {tuple(scales.shape)}"
    assert not close(scales, interleaved), "a group is made of neighbours: weights 0 and 1, then 2 and 3"
    assert close(scales, expected), f"{scales.tolist()}: each is the group's largest absolute value over 7"
    assert codes.tolist() == [[3, -7, 0, 7], [7, 2, -7, 0]], f"codes {codes.tolist()}"


@pytest.mark.exercise("quantize")
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("group_size", [None, 8, 3, 1])
def test_quantize_equals_a_loop_in_plain_python(impl, bits, group_size):
    weights = random(2, 3, 24, seed=bits)
    codes, scales = impl.quantize(weights, bits, group_size)
    size = group_size or 24
    assert codes.shape == weights.shape and scales.shape == (2, 3, 24 // size)
    for index in ((0, 0), (1, 2)):
        row = weights[index].tolist()
        by_hand = [codes_by_hand(row[start : start + size], bits) for start in range(0, 24, size)]
        assert codes[index].tolist() == [code for group, _ in by_hand for code in group]
        assert close(scales[index], vector(*(scale for _, scale in by_hand)))


@pytest.mark.exercise("quantize")
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12), st.integers(2, 8))
def test_quantize_is_off_by_at_most_half_a_scale(impl, row, bits):
    codes, scales = impl.quantize(vector(*row), bits)
    off = (vector(*row) - codes.double() * scales).abs().max().item()
    assert off <= 0.5000001 * scales.item(), f"{row}: off by {off / scales.item():.3f} scales, more than 0.5"


@pytest.mark.exercise("quantize")
def test_quantize_of_a_row_of_zeros_gives_zeros_and_no_nan(impl):
    codes, scales = impl.quantize(torch.stack([vector(0, 0, 0, 0), vector(1, 2, 3, 7)]), 4)
    assert codes.tolist() == [[0, 0, 0, 0], [1, 2, 3, 7]], f"codes {codes.tolist()}"
    assert close(scales.flatten(), vector(1.0, 1.0)), "zeros have scale 1, by definition"


@pytest.mark.exercise("quantize")
def test_quantize_chooses_codes_for_the_scales_as_stored(impl):
    weights = random(64, 32)
    codes, scales = impl.quantize(weights, 8, scale_dtype=torch.bfloat16)
    assert scales.dtype == torch.bfloat16, f"scales are asked for in bfloat16 and come as {scales.dtype}"
    off = ((weights - codes.double() * scales.double()).abs() / scales.double()).max().item()
    assert off <= 0.5000001, (
        f"off by {off:.2f} stored scales: round the scale to its dtype first, then the weights by *that* scale"
    )


@pytest.mark.exercise("quantize")
def test_quantize_refuses_what_it_cannot_do(impl):
    weights = random(2, 6)
    for bits in (1, 9, 0, 3.5):
        assert_refuses("bits", impl.quantize, weights, bits)
    for group_size in (4, 0, -2, 12, 1.5):  # 4 does not divide 6; 12 is longer than the row
        assert_refuses("group_size", impl.quantize, weights, 4, group_size)
    for wrong in (math.nan, math.inf):
        assert_refuses("weights", impl.quantize, torch.full((2, 6), wrong), 8)
    assert_refuses("weights", impl.quantize, torch.empty(2, 0), 8)


def test_quantize_gives_float32_scales_for_sixteen_bit_weights():
    for dtype, expected in ((torch.bfloat16, torch.float32), (torch.float16, torch.float32), (torch.float64,) * 2):
        assert quantization.quantize(random(2, 8).to(dtype), 8)[1].dtype == expected


# --- quantize_tensor ---------------------------------------------------------------------------------------------


@pytest.mark.exercise("quantize_tensor")
def test_quantize_tensor_shares_one_scale(impl):
    # 12.7 / 127 = 0.1 for all: row 0 becomes 5, -12.7, 0.2, 3, rounded.
    codes, scales = impl.quantize_tensor(two_rows(), 8)
    assert scales.shape == (1,), f"one scale for all weights has shape (1,), not {tuple(scales.shape)}"
    assert close(scales, vector(0.1)), f"scale {scales.tolist()}, not 0.1 = 12.7 / 127"
    assert codes.tolist() == [[5, -13, 0, 3], [127, 30, -64, 0]], f"codes {codes.tolist()}"


@pytest.mark.exercise("quantize_tensor")
def test_quantize_tensor_refuses_what_quantize_refuses(impl):
    assert_refuses("bits", impl.quantize_tensor, random(2, 2), 1)
    assert_refuses("weights", impl.quantize_tensor, vector(1, math.nan), 8)


def test_an_outlier_row_spoils_a_per_tensor_scale_and_not_the_others():
    # Relative errors of 8 bits. The scale is 40 · 3.2 / 127, about 1, and rounding is off by 1/√12 = 0.29 on average
    # (root of mean square) where the weights' own is √((3·1600 + 61)/64) = 8.7: 0.29 / 8.7 = 0.03. With a scale a row
    # it is (2.9 / 127) / √12 = 0.0066 of each row.
    weights = outlier_rows()
    codes, scales = quantization.quantize_tensor(weights, 8)
    per_tensor = quantization.quantization_error(weights, codes.double() * scales)
    codes, scales = quantization.quantize(weights, 8)
    per_channel = quantization.quantization_error(weights, codes.double() * scales)
    assert per_tensor == pytest.approx(0.033, abs=0.005)
    assert per_channel == pytest.approx(0.007, abs=0.0007)


# --- dequantize --------------------------------------------------------------------------------------------------


def int8(*rows):
    return torch.tensor(rows, dtype=torch.int8)


@pytest.mark.exercise("dequantize")
def test_dequantize_multiplies_codes_by_their_scale(impl):
    # 3 · 0.1814 = 0.544.
    actual = impl.dequantize(int8(3, -7, 0), vector(1.27 / 7))
    assert not close(actual.double(), vector(3, -7, 0)), "the scale is not applied: a weight is code · scale"
    assert close(actual, vector(0.544, -1.27, 0), 5e-4), f"{actual.tolist()}, not [0.544, -1.27, 0]"


@pytest.mark.exercise("dequantize")
def test_dequantize_gives_each_row_its_scale(impl):
    actual = impl.dequantize(int8([50, -127], [127, 30]), torch.tensor([[0.01], [0.1]], dtype=torch.float64))
    assert close(actual, torch.stack([vector(0.5, -1.27), vector(12.7, 3.0)])), f"{actual.tolist()}"


@pytest.mark.exercise("dequantize")
def test_dequantize_gives_each_group_its_scale(impl):
    # Two groups of three: the first three codes have scale 1, the others 10.
    codes = int8([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])
    scales = torch.tensor([[1.0, 10.0], [100.0, 1000.0]], dtype=torch.float64)
    actual = impl.dequantize(codes, scales)
    swapped = torch.stack([vector(1, 20, 3, 40, 5, 60), vector(100, 2000, 300, 4000, 500, 6000)])
    assert not close(actual, swapped), (
        "the scale of the wrong group: they are repeated as a pattern (1, 10, 1, 10 …), but the first serves the first "
        "three codes (1, 1, 1, 10, 10, 10)"
    )
    expected = torch.stack([vector(1, 2, 3, 40, 50, 60), vector(100, 200, 300, 4000, 5000, 6000)])
    assert close(actual, expected), f"{actual.tolist()}, not {expected.tolist()}"


@pytest.mark.exercise("dequantize")
def test_dequantize_with_one_scale_for_the_whole_tensor(impl):
    actual = impl.dequantize(int8([5, -13], [127, 30]), vector(0.1))
    assert close(actual, torch.stack([vector(0.5, -1.3), vector(12.7, 3.0)])), f"{actual.tolist()}"


@pytest.mark.exercise("dequantize")
def test_dequantize_is_exact_for_scales_of_two_bytes(impl):
    # 101 · 0.0078125 needs more digits than bfloat16 has: the product is taken in float32.
    actual = impl.dequantize(int8(101, 3), torch.tensor([1 + 2**-7]).bfloat16())
    assert actual.dtype == torch.float32, f"the result is float32, not {actual.dtype}"
    assert actual.tolist() == [101.7890625, 3.0234375], f"{actual.tolist()}: multiply in float32, not in bfloat16"


@pytest.mark.exercise("dequantize")
def test_dequantize_refuses_scales_that_do_not_share_out_evenly(impl):
    assert_refuses("scales", impl.dequantize, int8([1, 2, 3, 4, 5]), torch.ones(1, 2))


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("group_size", [None, 32])
def test_dequantize_restores_what_was_quantized_up_to_half_a_scale(bits, group_size):
    weights = outlier_rows()
    codes, scales = quantization.quantize(weights, bits, group_size)
    restored = quantization.dequantize(codes, scales)
    half = scales.repeat_interleave(group_size or 256, dim=1) / 2
    assert ((weights - restored).abs() <= half * (1 + 1e-9)).all()


def test_a_layer_with_inputs_of_one_gives_0_90_where_it_was_0_89():
    # 0.7 - 0.23 + 0.04 + 0.38 = 0.89; the codes 7, -2, 0, 4 at scale 0.1 sum to 9 · 0.1.
    restored = quantization.dequantize(*quantization.quantize(vector(0.7, -0.23, 0.04, 0.38), 4))
    assert restored.sum().item() == pytest.approx(0.90)


# --- quantization_error ------------------------------------------------------------------------------------------


@pytest.mark.exercise("quantization_error")
def test_quantization_error_is_the_distance_relative_to_the_size(impl):
    # ‖(3, 4)‖ = 5, the difference is (0, 1): 1/5. Squares of matrices count over all numbers.
    assert impl.quantization_error(vector(3, 4), vector(3, 3)) == pytest.approx(0.2, abs=1e-12), (
        "‖W - Ŵ‖ / ‖W‖ of (3, 4) and (3, 3) is 1/5"
    )
    weights = torch.stack([vector(3, 0), vector(0, 4)])
    actual = impl.quantization_error(weights, torch.stack([vector(0, 0), vector(0, 4)]))
    assert actual == pytest.approx(0.6, abs=1e-12), f"{actual}: one number for the whole matrix, √9 / √25"
    assert isinstance(actual, float), f"a float, not a {type(actual).__name__}"


@pytest.mark.exercise("quantization_error")
def test_quantization_error_grows_by_signs_in_neither_direction(impl):
    above, below = (impl.quantization_error(vector(1, 1), vector(1 + d, 1 - d)) for d in (0.1, -0.1))
    assert above == below == pytest.approx(0.1), "errors up and down do not cancel: square them first"


@pytest.mark.exercise("quantization_error")
def test_quantization_error_of_zeros(impl):
    assert impl.quantization_error(torch.zeros(3), torch.zeros(3)) == 0, "zeros kept as zeros: no error, and no 0 / 0"
    assert impl.quantization_error(torch.zeros(3), torch.ones(3)) == math.inf


@pytest.mark.exercise("quantization_error")
def test_quantization_error_refuses_shapes_that_differ(impl):
    assert_refuses("weights|approximation", impl.quantization_error, torch.ones(2, 3), torch.ones(3))


# --- bits_per_weight ---------------------------------------------------------------------------------------------


@pytest.mark.exercise("bits_per_weight")
@pytest.mark.parametrize(
    ("bits", "group_size", "expected"),
    [
        (4, 128, 4.125),  # 4 + 16/128: a group of 128 with a two-byte scale
        (4, 32, 4.5),
        (8, 4096, 8.00390625),  # one scale a row of 4,096: 8 + 16/4096
        (2, 16, 3.0),  # small groups cost as much as half the codes
    ],
)
def test_bits_per_weight_adds_the_share_of_the_scale(impl, bits, group_size, expected):
    actual = impl.bits_per_weight(bits, group_size)
    assert actual != bits, "the scale is forgotten: it is stored too, once a group"
    assert actual != bits + 16, "the scale is shared by the whole group, not paid by every weight"
    assert actual != bits + 2 / group_size, "a scale of two bytes has 16 bits"
    assert actual == pytest.approx(expected, abs=1e-12), f"{actual}, not {expected}"


@pytest.mark.exercise("bits_per_weight")
def test_bits_per_weight_with_wider_scales(impl):
    assert impl.bits_per_weight(4, 32, scale_bits=32) == pytest.approx(5.0)
    assert impl.bits_per_weight(4, 32, scale_bits=0) == 4


@pytest.mark.exercise("bits_per_weight")
def test_bits_per_weight_refuses_what_cannot_be(impl):
    assert_refuses("bits", impl.bits_per_weight, 1, 32)
    assert_refuses("group_size", impl.bits_per_weight, 4, 0)
    assert_refuses("scale_bits", impl.bits_per_weight, 4, 32, -1)


def test_117_billion_parameters_at_4_bits_fit_80_gb():
    # 117e9 · 4 / 8 = 58.5 GB; with two-byte scales for groups of 32, 4.5 bits: 65.8 GB. At 16 bits it would be 234 GB.
    bare, with_scales = (117e9 * quantization.bits_per_weight(4, 32, scale_bits) / 8 for scale_bits in (0, 16))
    assert bare == pytest.approx(58.5e9)
    assert with_scales == pytest.approx(65.8e9, rel=1e-3)
