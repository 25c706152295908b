"""Rounding that knows which inputs are large: AWQ, scales a channel at a time (Lin 2023, "AWQ", section 3)."""

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from .absmax import absmax_scales, dequantize, quantize, round_to_codes, split_groups
from .gptq_rounding import check_inputs, detached_bias
from .linear import SCALE_DTYPE, QuantizedLinear

from course import NotYetWritten

ALPHA_STEPS = 20  # steps of α from 0 to 1
SHRINK_STEPS = 20  # steps of a scale from 0 to its absmax; those from the half up are tried
# An input that is (nearly) never seen would get a channel scale of (nearly) 0.
SMALLEST_SHARE = 1e-3


def channel_scales(
    weights: Float[Tensor, "out D"], inputs: Float[Tensor, "n D"], bits: int, group_size: int | None = None
) -> Float[Tensor, "D"]:
    """Return what each column is to be multiplied by before it is rounded: more for columns of large inputs.

    Column j is multiplied by c[j] before the rounding, and the layer divides its input j by c[j]. The outputs stay the
    same, but for the errors: those of columns with large c get smaller, at the expense of the others. c is
    m^α / √(largest · smallest of m^α), m[j] the mean of |input j|; of α = 0, 1/20, …, 1 the one is taken with which
    plain rounding (`quantize`) has the least output_error on these inputs, the smallest among equals. α = 0 makes
    c = 1. A mean below a thousandth of the largest counts as that much, and if all are 0, c = 1.

    Raises:
        ValueError: what `quantize` refuses, or inputs that are not (n, D).
    """
    raise NotYetWritten(
        "exercise 5.16 channel_scales is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in "
        "exercises/quantization/awq_rounding.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/quantization/test_awq_rounding.py --exercise channel_scales"
    )


def shrunken_scales(
    weights: Float[Tensor, "out D"],
    inputs: Float[Tensor, "n D"],
    bits: int,
    group_size: int | None = None,
    scale_dtype: torch.dtype | None = None,
) -> Float[Tensor, "out G"]:
    """Return for each group the best of 1, 0.95, …, 0.5 times its absmax scale.

    A smaller scale cuts the largest weights short, since codes end at ±q, and rounds all the others more finely. Best
    is the least ‖X(W - Ŵ)ᵀ‖ with this group's columns and inputs alone, the larger scale among equals.

    Args:
        scale_dtype: scales are rounded to this dtype before they are compared, and come in it; None keeps that of
            absmax_scales.

    Raises:
        ValueError: what `quantize` refuses, or inputs that are not (n, D).
    """
    raise NotYetWritten(
        "exercise 5.17 shrunken_scales is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in "
        "exercises/quantization/awq_rounding.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/quantization/test_shrunken_scales.py --exercise shrunken_scales"
    )


def awq(
    weights: Float[Tensor, "out D"],
    inputs: Float[Tensor, "n D"],
    bits: int,
    group_size: int | None = None,
    scale_dtype: torch.dtype | None = None,
) -> tuple[Int8[Tensor, "out D"], Float[Tensor, "out G"], Float[Tensor, "D"]]:
    """Return (codes, scales, channel_scales c): `channel_scales`, then `shrunken_scales` of the weights so multiplied.

    The codes and scales stand for weights · c, and belong to inputs / c.

    Raises:
        ValueError: what `quantize` refuses, or inputs that are not (n, D).
    """
    c = channel_scales(weights, inputs, bits, group_size)
    scales = shrunken_scales(weights * c, inputs / c, bits, group_size, scale_dtype)
    codes = round_to_codes(split_groups(weights * c, group_size), scales.unsqueeze(-1), bits)
    return codes.flatten(-2), scales, c


def awq_linear(linear: nn.Linear, inputs: Tensor, bits: int, group_size: int | None = None) -> QuantizedLinear:
    """Return the layer with its weights rounded by `awq`; it divides its inputs by the channel scales at every call.

    (A server would multiply them into the norm or matrix before, and save the division.)
    """
    codes, scales, c = awq(linear.weight.detach(), inputs, bits, group_size, SCALE_DTYPE)
    return QuantizedLinear(codes, scales, bits, detached_bias(linear), c)
