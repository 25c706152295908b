"""Rounding that looks at what the layer reads: two ways to lose less at 4 bits and below than the nearest code does.

Plain rounding keeps every weight as near as it can. What counts is the layer's *output* on the inputs that it really
meets, a few of which are enough to calibrate on. `gptq` lets later columns make up for the errors of earlier ones
(Frantar 2022, "GPTQ", algorithm 1); `awq` spends precision on the inputs that are large and cuts off what costs more
than it gives (Lin 2023, "AWQ", section 3, and the clipping of its code).

Both work on one matrix, (out, D), and its inputs, (n, D), n positions of text. Products are taken in float64.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from .model import NanoLM
from .quantization import absmax_scales, check_finite, dequantize, quantize, round_to_codes, split_groups
from .quantized_linear import SCALE_DTYPE, QuantizedLinear
from .quantized_model import collect_inputs, linear_layers, quantize_model

from course import NotYetWritten

_ALPHAS = 20  # steps of α from 0 to 1
_SHRINKINGS = 20  # steps of a scale from 0 to its absmax; those from the half up are tried
# An input that is (nearly) never seen would get a channel scale of (nearly) 0.
_SMALLEST_SHARE = 1e-3


def output_error(
    weights: Float[Tensor, "out D"], approximation: Float[Tensor, "out D"], inputs: Float[Tensor, "n D"]
) -> float:
    """Return how far the layer's outputs move, relative to their size: ‖X(W - Ŵ)ᵀ‖ / ‖XWᵀ‖ on these inputs X.

    Raises:
        ValueError: the outputs XWᵀ are all zero.
    """
    raise NotYetWritten(
        "exercise 5.13 output_error is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/calibrated_rounding.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/test_calibrated_rounding.py -k output_error"
    )


def gptq(
    weights: Float[Tensor, "out D"],
    inputs: Float[Tensor, "n D"],
    bits: int,
    group_size: int | None = None,
    damping: float = 0.01,
    scale_dtype: torch.dtype | None = None,
) -> tuple[Int8[Tensor, "out D"], Float[Tensor, "out G"]]:
    """Return (codes, scales) as `quantize` does, the columns rounded one after the other, each making up for the last.

    Column j is rounded to its nearest code. Its error, divided by U[j, j], is then taken out of the columns not yet
    rounded in proportion to U[j, k], k > j: inputs that go together with input j take over what it lost. U is the
    upper Cholesky factor of H⁻¹ and H = XᵀX + λI, λ = damping · the mean of XᵀX's diagonal. A group's scales are those
    of its weights at the moment when its first column is reached.

    Args:
        inputs: X, what the layer reads.
        damping: keeps H invertible where inputs are few or alike; above 0.
        scale_dtype: as for `quantize`.

    Raises:
        ValueError: what `quantize` refuses, damping not above 0, or inputs that are not (n, D).
    """
    raise NotYetWritten(
        "exercise 5.15 gptq is not written yet: read notebooks/week05_quantization/week05_quantization.ipynb, write"
        " it in exercises/calibrated_rounding.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/test_calibrated_rounding.py -k gptq"
    )


def inverse_factor(inputs: Float[Tensor, "n D"], damping: float = 0.01) -> Float[Tensor, "D D"]:
    """Return the upper triangular U with UᵀU = H⁻¹, H = XᵀX + damping · mean(diagonal of XᵀX) · I, in float64.

    Inputs that are all zero make H the identity.

    Raises:
        ValueError: damping is not above 0.
    """
    raise NotYetWritten(
        "exercise 5.14 inverse_factor is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/calibrated_rounding.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/test_calibrated_rounding.py -k inverse_factor"
    )


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
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/calibrated_rounding.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/test_calibrated_rounding.py -k channel_scales"
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
        scale_dtype: scales are rounded to this number type before they are compared; None keeps that of absmax_scales.

    Raises:
        ValueError: what `quantize` refuses, or inputs that are not (n, D).
    """
    raise NotYetWritten(
        "exercise 5.17 shrunken_scales is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/calibrated_rounding.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/test_calibrated_rounding.py -k shrunken_scales"
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


def gptq_linear(linear: nn.Linear, inputs: Tensor, bits: int, group_size: int | None = None) -> QuantizedLinear:
    """Return the layer with its weights rounded by `gptq`; the bias stays."""
    codes, scales = gptq(linear.weight.detach(), inputs, bits, group_size, scale_dtype=SCALE_DTYPE)
    return QuantizedLinear(codes, scales, bits, _bias(linear))


def awq_linear(linear: nn.Linear, inputs: Tensor, bits: int, group_size: int | None = None) -> QuantizedLinear:
    """Return the layer with its weights rounded by `awq`; it divides its inputs by the channel scales at every call.

    (A server would multiply them into the norm or matrix before, and save the division.)
    """
    codes, scales, c = awq(linear.weight.detach(), inputs, bits, group_size, SCALE_DTYPE)
    return QuantizedLinear(codes, scales, bits, _bias(linear), c)


def quantize_calibrated(
    model: NanoLM,
    bits: int,
    rows: Sequence[Sequence[int]],
    group_size: int | None = None,
    method: Callable[..., QuantizedLinear] = gptq_linear,
    kernels: bool = True,
) -> NanoLM:
    """Exchange the model's linear layers in place for ones that are calibrated on rows of tokens; return the model.

    Each layer of attention and feed-forward is calibrated on what it reads once the layers before it have been
    exchanged, and so can make up for their errors too.

    Args:
        rows: token ids of the texts to calibrate on; some thousand tokens of the kind that the model will meet.
        method: `gptq_linear` or `awq_linear`.
        kernels: as for `quantize_model`.

    Raises:
        ValueError: what `quantize_model` and `collect_inputs` refuse.
    """
    inputs: dict[str, Tensor] = {}

    def make(name: str, linear: nn.Linear) -> QuantizedLinear:
        if name not in inputs:
            layer = name.rsplit(".", 2)[0] + "."  # "layers.3.", all of whose matrices share a pass
            together = [other for other in linear_layers(model) if other.startswith(layer)]
            inputs.update(collect_inputs(model, rows, together))
        return method(linear, inputs.pop(name), bits, group_size)

    return quantize_model(model, bits, group_size, make=make, kernels=kernels)


def _bias(linear: nn.Linear) -> Tensor | None:
    return None if linear.bias is None else linear.bias.detach()


def _check(weights: Tensor, inputs: Tensor) -> None:
    if weights.ndim != 2 or inputs.ndim != 2 or inputs.shape[1] != weights.shape[1] or not len(inputs):
        shapes = f"weights have shape {tuple(weights.shape)} and inputs {tuple(inputs.shape)}"
        raise ValueError(f"{shapes}; they must be (out, D) and (n, D), n at least 1")
    check_finite(weights)
    if not torch.isfinite(inputs).all():
        raise ValueError("inputs hold NaN or infinite numbers; all must be finite")
