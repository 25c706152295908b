"""Grades `nanolm/quantization/absmax.py`, rows and groups: literals, and a loop in plain Python as the oracle."""

import math

import pytest
import torch
from by_hand import close, random
from hypothesis import given, settings
from hypothesis import strategies as st
from instead import errors_mean
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


# --- quantize --------------------------------------------------------------------------------------------------------


@pytest.mark.exercise("quantize")
def test_quantize_gives_the_int8_codes_of_the_worked_example(impl):
    # 1.27 / 127 = 0.01, and all three weights are whole multiples of it: nothing is lost.
    codes, scales = impl.quantize(vector(0.5, -1.27, 0.02), 8)
    assert codes.dtype == torch.int8, f"(codes, scales) in this order, codes as int8; the first is {codes.dtype}"
    assert codes.shape == (3,), f"codes of shape {tuple(codes.shape)}: as many as weights, (3,), the groups undone"
    assert scales.shape == (1,), (
        f"scales of shape {tuple(scales.shape)}: a row has G of them, here (1,); squeeze(-1) takes out one dimension, "
        "squeeze() all of length 1"
    )
    assert close(scales, vector(0.01)), f"scale {scales.tolist()}, not 0.01 = 1.27 / 127"
    assert codes.tolist() == [50, -127, 2], f"codes {codes.tolist()}, not [50, -127, 2]"


@pytest.mark.exercise("quantize")
def test_quantize_gives_the_int4_codes_of_the_worked_examples(impl):
    # 1.27 / 7 = 0.181; 0.5 / 0.181 = 2.76 and 0.02 / 0.181 = 0.11.
    codes, scales = impl.quantize(vector(0.5, -1.27, 0.02), 4)
    assert close(scales, vector(0.1814), 1e-4), f"scale {scales.tolist()}, not 0.181 = 1.27 / 7 (levels are -7 … 7)"
    assert codes.tolist() != [2, -7, 0], "0.5 / 0.181 = 2.76 was cut off to 2: a code is the nearest whole number"
    assert codes.tolist() == [3, -7, 0], f"codes {codes.tolist()}, not [3, -7, 0]"
    codes, scales = impl.quantize(vector(0.7, -0.23, 0.04, 0.38), 4)
    assert close(scales, vector(0.1)) and codes.tolist() == [7, -2, 0, 4], f"{codes.tolist()}, scale {scales.tolist()}"


@pytest.mark.exercise("quantize")
def test_quantize_gives_each_row_its_own_scale(impl):
    codes, scales = impl.quantize(two_rows(), 8)
    assert codes.tolist() != [[5, -13, 0, 3], [127, 30, -64, 0]], "one scale for the whole tensor: row 0 has lost most"
    assert not close(scales.flatten(), vector(0.1, 0.1)), "one scale for the whole tensor: each row has its own"
    assert codes.tolist() == [[50, -127, 2, 30], [127, 30, -64, 0]], f"codes {codes.tolist()}"
    assert scales.shape == (2, 1), f"one scale a row has shape (rows, 1), not {tuple(scales.shape)}"


@pytest.mark.exercise("quantize")
def test_quantize_gives_each_group_its_own_scale(impl):
    # Two groups of two in each row: (0.5, -1.27 | 0.02, 0.3) and (12.7, 3.0 | -6.4, 0.0), q = 7.
    codes, scales = impl.quantize(two_rows(), 4, group_size=2)
    expected = torch.tensor([[1.27 / 7, 0.3 / 7], [12.7 / 7, 6.4 / 7]], dtype=torch.float64)
    interleaved = torch.tensor([[0.5 / 7, 1.27 / 7], [12.7 / 7, 3.0 / 7]], dtype=torch.float64)
    assert scales.shape != (2, 1), "one scale a row: group_size is not used"
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
    assert codes.shape == weights.shape, f"codes of shape {tuple(codes.shape)} for weights of shape (2, 3, 24)"
    assert scales.shape == (2, 3, 24 // size), f"scales of shape {tuple(scales.shape)}: (2, 3, {24 // size}), G a row"
    for index in ((0, 0), (1, 2)):
        row = weights[index].tolist()
        by_hand = [codes_by_hand(row[start : start + size], bits) for start in range(0, 24, size)]
        expected = [code for group, _ in by_hand for code in group]
        assert codes[index].tolist() == expected, f"row {index}: got {codes[index].tolist()}, expected {expected}"
        assert close(scales[index], vector(*(scale for _, scale in by_hand))), f"row {index}: scales {scales[index]}"


@pytest.mark.exercise("quantize")
@settings(max_examples=100)
@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=12), st.integers(2, 8))
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
    # 127.457 / 127 is 1.0036, and bfloat16 has nothing between 1 and 1.0078: stored is 1, by which 100.6 gets code 101.
    # By 1.0036 it would be 100.
    codes, scales = impl.quantize(vector(127.457, 100.6, -101.4), 8, scale_dtype=torch.bfloat16)
    assert scales.dtype == torch.bfloat16, f"scales are asked for in bfloat16 and come as {scales.dtype}"
    assert scales.tolist() == [1.0], f"127.457 / 127 in bfloat16 is 1, not {scales.tolist()}"
    assert codes.tolist() != [127, 100, -101], (
        "the codes belong to the scale before it was rounded: round it to its dtype first, then the weights by *that* "
        "scale"
    )
    assert codes.tolist() == [127, 101, -101], f"codes {codes.tolist()}, not [127, 101, -101]"


@pytest.mark.exercise("quantize")
def test_quantize_is_off_by_at_most_half_a_stored_scale(impl):
    weights = random(64, 32)
    codes, scales = impl.quantize(weights, 8, scale_dtype=torch.bfloat16)
    off = ((weights - codes.double() * scales.double()).abs() / scales.double()).max().item()
    # Only the largest weight may be cut short: it is 127 scales before they are rounded, which moves them by a factor
    # of 1 ± 2^-9, and 127 · 2^-9 is 0.25.
    assert off <= 0.5000001, f"off by {off:.2f} stored scales, more than 0.5"


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


@pytest.mark.exercise("quantize")
def test_quantize_keeps_the_scales_of_absmax_scales_where_no_dtype_is_asked_for(impl):
    for dtype, expected in ((torch.bfloat16, torch.float32), (torch.float16, torch.float32), (torch.float64,) * 2):
        _, scales = impl.quantize(random(2, 8).to(dtype), 8)
        why = "without scale_dtype they stay as absmax_scales gives them"
        assert scales.dtype == expected, f"scales of {dtype} weights are {expected}, not {scales.dtype}: {why}"


# --- quantize_tensor -------------------------------------------------------------------------------------------------


@pytest.mark.exercise("quantize_tensor")
def test_quantize_tensor_shares_one_scale(impl):
    # 12.7 / 127 = 0.1 for all: row 0 becomes 5, -12.7, 0.2, 3, rounded. Turned round, the largest is negative.
    codes, scales = impl.quantize_tensor(-two_rows(), 8)
    assert scales.numel() == 1, f"{scales.numel()} scales of shape {tuple(scales.shape)}: one for all weights is asked"
    assert scales.shape == (1,), f"one scale for all weights has shape (1,), not {tuple(scales.shape)}"
    assert codes.shape == (2, 4), f"codes of shape {tuple(codes.shape)}: they lie as the weights do, (2, 4)"
    mistakes = {
        "the scale comes from the largest number, not from the largest absolute value": 6.4 / 127,
        "that is the mean of the rows' scales: the largest weight of all must fit": (0.01 + 0.1) / 2,
        "that is the scale of the first row: the largest weight of all must fit": 0.01,
    }
    mistake = next((why for why, scale in mistakes.items() if close(scales.double(), vector(scale), 1e-6)), None)
    assert mistake is None, mistake
    assert close(scales, vector(0.1)), f"scale {scales.tolist()}, not 0.1 = 12.7 / 127"
    assert codes.tolist() == [[-5, 13, 0, -3], [-127, -30, 64, 0]], f"codes {codes.tolist()}"


@pytest.mark.exercise("quantize_tensor")
@pytest.mark.parametrize("shape", [(8,), (2, 4), (2, 2, 2)])
def test_quantize_tensor_takes_bits_and_shapes_as_they_come(impl, shape):
    # 12.7 / 7 = 1.814.
    codes, scales = impl.quantize_tensor(two_rows().view(shape), 4)
    assert not close(scales, vector(0.1)), "the scale of 8 bits: bits is not used"
    assert codes.shape == shape, f"codes of shape {tuple(codes.shape)} for weights of shape {shape}"
    assert scales.shape == (1,), f"one scale for all weights has shape (1,), not {tuple(scales.shape)}"
    assert codes.flatten().tolist() == [0, -1, 0, 0, 7, 2, -4, 0], f"codes {codes.tolist()}"


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


# --- dequantize ------------------------------------------------------------------------------------------------------


def int8(*rows):
    return torch.tensor(rows, dtype=torch.int8)


@pytest.mark.exercise("dequantize")
def test_dequantize_multiplies_codes_by_their_scale(impl):
    # 3 · 0.1814 = 0.544.
    actual = impl.dequantize(int8(3, -7, 0), vector(1.27 / 7))
    assert actual.shape == (3,), f"shape {tuple(actual.shape)}: as many weights as codes, (3,), the groups undone"
    assert not close(actual.double(), vector(3, -7, 0)), "the scale is not applied: a weight is code · scale"
    assert not close(actual.double(), vector(3, -7, 0) * 7 / 1.27, 1e-5), "divided by the scale: it is code · scale"
    assert actual.dtype == torch.float64, f"the result is float64 for float64 scales, not {actual.dtype}"
    assert close(actual, vector(0.544, -1.27, 0), 5e-4), f"{actual.tolist()}, not [0.544, -1.27, 0]"


@pytest.mark.exercise("dequantize")
def test_dequantize_gives_each_row_its_scale(impl):
    actual = impl.dequantize(int8([50, -127], [127, 30]), torch.tensor([[0.01], [0.1]], dtype=torch.float64))
    assert not close(actual[1], vector(1.27, 0.3)), "row 1 has the scale of row 0: each row has its own"
    assert close(actual, torch.stack([vector(0.5, -1.27), vector(12.7, 3.0)])), f"{actual.tolist()}"


@pytest.mark.exercise("dequantize")
def test_dequantize_gives_each_group_its_scale(impl):
    # Two groups of three: the first three codes have scale 1, the others 10.
    codes = int8(*[[1, 2, 3, 4, 5, 6]] * 3)
    scales = torch.tensor([[1.0, 10.0], [100.0, 1000.0], [2.0, 3.0]], dtype=torch.float64)
    with errors_mean("rows of 6 codes with 2 scales each: cut the rows into 2 groups of 3", RuntimeError, IndexError):
        actual = impl.dequantize(codes, scales)
    pattern, in_turn = torch.stack([vector(1, 2, 3, 4, 5, 6)] * 3), torch.arange(6) % 2
    swapped = pattern * scales[:, in_turn]
    assert not close(actual, pattern * scales[:, :1]), "each row's first scale serves all of its codes: it has two"
    assert not close(actual, swapped), (
        "the scale of the wrong group: they are repeated as a pattern (1, 10, 1, 10 …), but the first serves the first "
        "three codes (1, 1, 1, 10, 10, 10)"
    )
    expected = torch.stack(
        [vector(1, 2, 3, 40, 50, 60), vector(100, 200, 300, 4000, 5000, 6000), vector(2, 4, 6, 12, 15, 18)]
    )
    assert close(actual, expected), f"got {actual.tolist()}, expected {expected.tolist()}"


@pytest.mark.exercise("dequantize")
def test_dequantize_with_one_scale_for_the_whole_tensor(impl):
    why = "scales of shape (1,) are one for the whole tensor"
    with errors_mean(why, IndexError, RuntimeError, ValueError):
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
    assert_refuses("scales", impl.dequantize, int8([1, 2, 3, 4]), torch.ones(1, 0))  # no scale at all


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
