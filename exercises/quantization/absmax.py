"""Weights in few bits: small whole numbers, the codes, and a scale that several of them share.

A weight is stored as a code from -q to q, q = 2^(bits-1) - 1, and read back as code · scale. The sharers of a scale
are a whole tensor, a row (one output channel), or a group of neighbours in a row; the largest of them in absolute
value gets the code q or -q, which gives the method its name, absmax. Zero is always stored exactly.

This file knows numbers: how codes lie in bytes is `packing`, what a layer does with them `linear`. D is the
length of a row, G the number of scales that it has.

Sources: Dettmers 2022 ("LLM.int8()", section 2: absmax, one scale a row), Shen 2020 ("Q-BERT": groups).
"""

import torch
from jaxtyping import Float, Int8, Num
from torch import Tensor

from .._require import require_count

from course import NotYetWritten


def largest_code(bits: int) -> int:
    """Return q, the largest code: 2^(bits-1) - 1, which is 127 for 8 bits, 7 for 4 and 1 for 2.

    The codes are -q … q. One more negative number would fit into the bits, -2^(bits-1); it is left out, so that w and
    -w always get codes that differ in the sign alone.

    Raises:
        ValueError: bits is not a whole number from 2 to 8.
    """
    raise NotYetWritten(
        "exercise 5.1 largest_code is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/quantization/absmax.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/quantization/test_scales_and_codes.py --exercise "
        "largest_code"
    )


def absmax_scales(weights: Num[Tensor, "... D"], bits: int) -> Float[Tensor, "... 1"]:
    """Return the scale of each row: the largest absolute value in the row, divided by largest_code(bits).

    A row is the last dimension, which is kept with length 1. A row of zeros gets scale 1: it can be divided by, and its
    codes are 0. The result is float32, or float64 for float64 weights.

    Raises:
        ValueError: bits outside 2 … 8; a weight that is NaN or infinite.
    """
    raise NotYetWritten(
        "exercise 5.2 absmax_scales is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/quantization/absmax.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/quantization/test_scales_and_codes.py --exercise "
        "absmax_scales"
    )


def round_to_codes(weights: Num[Tensor, "... D"], scales: Float[Tensor, "... 1"], bits: int) -> Int8[Tensor, "... D"]:
    """Return the codes of the weights: weight / scale, rounded to the nearest whole number and held within -q … q.

    q is largest_code(bits). Exactly between two whole numbers, the even one is taken (torch.round). The quotient is
    computed in float32 even for 16-bit weights, whose own numbers are too coarse for it.

    Args:
        weights: rows of D numbers.
        scales: one a row; any shape that can be broadcast to that of the weights.

    Raises:
        ValueError: bits outside 2 … 8.
    """
    raise NotYetWritten(
        "exercise 5.3 round_to_codes is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/quantization/absmax.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/quantization/test_scales_and_codes.py --exercise "
        "round_to_codes"
    )


def quantize(
    weights: Num[Tensor, "... D"], bits: int, group_size: int | None = None, scale_dtype: torch.dtype | None = None
) -> tuple[Int8[Tensor, "... D"], Float[Tensor, "... G"]]:
    """Return (codes, scales): symmetric absmax quantization with one scale a row, or one a group.

    Every group of `group_size` neighbours in a row is treated by `absmax_scales` and `round_to_codes` as if it were a
    row of its own. Group g of a row are its weights g·group_size … (g+1)·group_size - 1 and its scale is
    scales[…, g], so G = D / group_size; without `group_size` the row is one group and G = 1. An error is at most half
    the scale.

    Args:
        weights: rows of D numbers; a matrix (out, in) has one row for each output.
        scale_dtype: the dtype that scales are stored in; codes are chosen for the scales as stored, so that
            their rounding costs nothing. None keeps those of absmax_scales.

    Raises:
        ValueError: bits outside 2 … 8; a weight that is NaN or infinite; a group_size that does not divide D.
    """
    raise NotYetWritten(
        "exercise 5.5 quantize is not written yet: read notebooks/week05_quantization/week05_quantization.ipynb, "
        "write it in exercises/quantization/absmax.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/quantization/test_quantize.py --exercise quantize"
    )


def quantize_tensor(weights: Num[Tensor, "..."], bits: int) -> tuple[Int8[Tensor, "..."], Float[Tensor, "1"]]:
    """Return (codes, scales) with a single scale for all weights, (1,): cheapest, and one outlier coarsens everything.

    Raises:
        ValueError: as for `quantize`.
    """
    raise NotYetWritten(
        "exercise 5.6 quantize_tensor is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/quantization/absmax.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/quantization/test_quantize.py --exercise "
        "quantize_tensor"
    )


def dequantize(codes: Num[Tensor, "... D"], scales: Float[Tensor, "... G"]) -> Float[Tensor, "... D"]:
    """Return the weights that codes and scales stand for: each code times the scale of its group.

    A row of D codes has G scales, and each scale serves D / G neighbours: the first scale the first D / G codes, and
    so on. G = 1 is one scale a row; scales of shape (1,) are one for the whole tensor. The result is float32, or
    float64 for float64 scales.

    Raises:
        ValueError: G does not divide D.
    """
    raise NotYetWritten(
        "exercise 5.4 dequantize is not written yet: read notebooks/week05_quantization/week05_quantization.ipynb, "
        "write it in exercises/quantization/absmax.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/quantization/test_quantize.py --exercise dequantize"
    )


def quantization_error(weights: Num[Tensor, "..."], approximation: Num[Tensor, "..."]) -> float:
    """Return how far the approximation is from the weights, relative to their size: ‖W - Ŵ‖ / ‖W‖.

    ‖·‖ is the square root of the sum of squares over all numbers, taken in float64. Equal tensors give 0, all-zero ones
    too; weights that are all zero and an approximation that is not give infinity.

    Raises:
        ValueError: shapes that differ (one would be broadcast unnoticed).
    """
    raise NotYetWritten(
        "exercise 5.7 quantization_error is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/quantization/absmax.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/quantization/test_quantization_measures.py "
        "--exercise quantization_error"
    )


def bits_per_weight(bits: int, group_size: int, scale_bits: int = 16) -> float:
    """Return the bits that a weight costs with its share of the scale: bits + scale_bits / group_size.

    Args:
        group_size: weights that share a scale: a group, a row of D, or a whole tensor.
        scale_bits: bits of a stored scale.

    Raises:
        ValueError: bits outside 2 … 8, group_size not a whole number above 0, scale_bits not one of 0 or more.
    """
    raise NotYetWritten(
        "exercise 5.8 bits_per_weight is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/quantization/absmax.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/quantization/test_quantization_measures.py "
        "--exercise bits_per_weight"
    )


def split_groups(weights: Num[Tensor, "... D"], group_size: int | None) -> Num[Tensor, "... G size"]:
    """Return the rows cut into groups of `group_size` neighbours; None makes each row one group.

    Raises:
        ValueError: group_size is not a whole number above 0 that divides D, or there are no weights.
    """
    D = weights.shape[-1] if weights.ndim else 0
    if not weights.numel():
        raise ValueError(f"weights have shape {tuple(weights.shape)}; rows of at least one number are needed")
    if group_size is None:
        return weights.unsqueeze(-2)
    require_count(1, group_size=group_size)
    if D % group_size:
        raise ValueError(f"group_size is {group_size} and a row has {D} weights; the groups must fill the row exactly")
    return weights.unflatten(-1, (-1, int(group_size)))


def check_finite(weights: Num[Tensor, "..."]) -> None:
    """Raise a ValueError if a weight is NaN or infinite: its scale would spoil all that share it."""
    finite = torch.isfinite(weights)
    if not finite.all():
        raise ValueError(f"weights hold {(~finite).sum()} NaN or infinite numbers; all must be finite")


def at_least_float32(x: Num[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return x in float32, or as it is where it is float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
