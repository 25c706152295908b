"""Grades `nanolm/quantization/absmax.py`: what rounding loses, and what it costs in bits, as literals."""

import math

import pytest
import torch
from refusal import assert_refuses

from nanolm.quantization import absmax as quantization


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


# --- quantization_error ----------------------------------------------------------------------------------------------


def error_of(impl, weights, approximation):
    try:
        return impl.quantization_error(weights, approximation)
    except ZeroDivisionError:
        pytest.fail(f"{weights.tolist()} against {approximation.tolist()}: weights of size 0 are 0 / 0 or 1 / 0")


@pytest.mark.exercise("quantization_error")
def test_quantization_error_is_the_distance_relative_to_the_size(impl):
    # ‖(3, 4)‖ = 5, the difference is (0, 1): 1/5.
    actual = impl.quantization_error(vector(3, 4), vector(3, 3))
    assert isinstance(actual, float), f"a float, not a {type(actual).__name__}"
    mistakes = {
        "relative to the approximation: it is the weights' own size that counts": 1 / 18**0.5,
        "the root is missing: these are squares, 1/25": 1 / 25,
        "sums of absolute values: squares are summed": 1 / 7,
        "the largest difference over the largest weight: squares are summed": 1 / 4,
        "the distance alone: divide by the weights' size": 1,
        "divided by the size squared: take the root there too": 1 / 5**2,
    }
    for mistake, result in mistakes.items():
        assert actual != pytest.approx(result, abs=1e-9), f"{actual:.4f} for (3, 4) and (3, 3): {mistake}"
    assert actual == pytest.approx(0.2, abs=1e-12), f"{actual}: ‖W - Ŵ‖ / ‖W‖ of (3, 4) and (3, 3) is 1/5"


@pytest.mark.exercise("quantization_error")
def test_quantization_error_takes_a_matrix_as_one_whole(impl):
    weights = torch.stack([vector(3, 0), vector(0, 4)])
    actual = impl.quantization_error(weights, torch.stack([vector(0, 0), vector(0, 4)]))
    # Row by row it would be 1 and 0; the largest singular values are 3 and 4.
    assert actual != pytest.approx(0.5), "the mean of the rows' errors: one number for the whole matrix, √9 / √25"
    assert actual != pytest.approx(0.75), "the spectral norm: sum the squares of all numbers, √9 / √25"
    assert actual == pytest.approx(0.6, abs=1e-12), f"{actual}: one number for the whole matrix, √9 / √25"


@pytest.mark.exercise("quantization_error")
def test_quantization_error_grows_by_signs_in_neither_direction(impl):
    for d in (0.1, -0.1):
        actual = impl.quantization_error(vector(1, 1), vector(1 + d, 1 - d))
        assert actual == pytest.approx(0.1), f"{actual}: errors up and down do not cancel: square them first"


@pytest.mark.exercise("quantization_error")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quantization_error_is_taken_in_float64(impl, dtype):
    # 1 and 0.9921875 are exact in all types: 2^-7 / √3.
    weights, approximation = torch.ones(3, dtype=dtype), torch.tensor([1, 1, 1 - 2**-7], dtype=dtype)
    actual = impl.quantization_error(weights, approximation)
    assert actual == pytest.approx(2**-7 / 3**0.5, rel=1e-12), (
        f"got {actual!r}, expected {2**-7 / 3**0.5!r}: take it in float64"
    )


@pytest.mark.exercise("quantization_error")
def test_quantization_error_of_zeros(impl):
    nothing = error_of(impl, torch.zeros(3), torch.zeros(3))
    assert nothing == 0, f"zeros kept as zeros: no error, and no 0 / 0; got {nothing}"
    everything = error_of(impl, torch.zeros(3), torch.ones(3))
    assert everything == math.inf, f"ones in the place of zeros are infinitely far off, 1 / 0, not {everything}"


@pytest.mark.exercise("quantization_error")
def test_quantization_error_refuses_shapes_that_differ(impl):
    assert_refuses("weights|approximation", impl.quantization_error, torch.ones(2, 3), torch.ones(3))


# --- bits_per_weight -------------------------------------------------------------------------------------------------


@pytest.mark.exercise("bits_per_weight")
@pytest.mark.parametrize(
    ("bits", "group_size", "expected"),
    [
        (4, 128, 4.125),  # 4 + 16/128: a group of 128 with a two-byte scale
        (4, 32, 4.5),
        (8, 4096, 8.00390625),  # one scale a row of 4,096: 8 + 16/4096
        (2, 16, 3.0),  # small groups cost as much as half the codes
        (4, 1, 20.0),  # a scale for each weight
    ],
)
def test_bits_per_weight_adds_the_share_of_the_scale(impl, bits, group_size, expected):
    actual = impl.bits_per_weight(bits, group_size)
    mistakes = {
        "the scale is forgotten, or its share cut off (//): it is stored too, once a group": bits + 16 // group_size,
        "the scale is shared by the whole group, not paid by every weight": bits + 16,
        "a scale of two bytes has 16 bits": bits + 2 / group_size,
        "multiplied by the group size: its weights share the scale": bits + 16 * group_size,
        "the bits of the code are shared too: only the scale is": (bits + 16) / group_size,
    }
    for mistake, result in mistakes.items():
        assert actual == expected or actual != result, f"got {actual}, expected {expected}: {mistake}"
    assert actual == pytest.approx(expected, abs=1e-12), f"got {actual}, expected {expected}"


@pytest.mark.exercise("bits_per_weight")
def test_bits_per_weight_with_scales_of_other_sizes(impl):
    for scale_bits, expected in ((32, 5.0), (8, 4.25), (0, 4.0)):
        actual = impl.bits_per_weight(4, 32, scale_bits=scale_bits)
        assert actual != 4.5, f"4.5 with scales of {scale_bits} bits: those of 16 were counted, scale_bits is not used"
        assert actual == pytest.approx(expected), f"got {actual}, expected {expected}, with scales of {scale_bits} bits"


@pytest.mark.exercise("bits_per_weight")
@pytest.mark.parametrize(
    ("blamed", "arguments"),
    [
        *(("bits", (bits, 32)) for bits in (1, 9, 2.5)),
        *(("group_size", (4, size)) for size in (0, -8, 1.5)),
        *(("scale_bits", (4, 32, bits)) for bits in (-1, 0.5)),
    ],
)
def test_bits_per_weight_refuses_what_cannot_be(impl, blamed, arguments):
    assert_refuses(blamed, impl.bits_per_weight, *arguments)


def test_117_billion_parameters_at_4_bits_fit_80_gb():
    # 117e9 · 4 / 8 = 58.5 GB; with two-byte scales for groups of 32, 4.5 bits: 65.8 GB. At 16 bits it would be 234 GB.
    bare, with_scales = (117e9 * quantization.bits_per_weight(4, 32, scale_bits) / 8 for scale_bits in (0, 16))
    assert bare == pytest.approx(58.5e9)
    assert with_scales == pytest.approx(65.8e9, rel=1e-3)
