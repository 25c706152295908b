"""Rounding that looks at what the layer reads: two ways to lose less at 4 bits and below than the nearest code does.

Plain rounding keeps every weight as near as it can. What counts is the layer's *output* on the inputs that it really
meets, a few of which are enough to calibrate on. `gptq` lets later columns make up for the errors of earlier ones
(Frantar 2022, "GPTQ", algorithm 1); `awq` spends precision on the inputs that are large and cuts off what costs more
than it gives (Lin 2023, "AWQ", section 3, and the clipping of its code).

Both work on one matrix, (out, D), and its inputs, (n, D), n positions of text. Products are taken in float64.
"""

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from .absmax import absmax_scales, check_finite, round_to_codes, split_groups
from .linear import SCALE_DTYPE, QuantizedLinear


def output_error(
    weights: Float[Tensor, "out D"], approximation: Float[Tensor, "out D"], inputs: Float[Tensor, "n D"]
) -> float:
    """Return how far the layer's outputs move, relative to their size: ‖X(W - Ŵ)ᵀ‖ / ‖XWᵀ‖ on these inputs X.

    ‖·‖ is the square root of the sum of squares over all numbers. Everything is taken in float64.

    Raises:
        ValueError: the outputs XWᵀ are all zero.
    """
    X, W = inputs.double(), weights.double()
    size = (X @ W.T).norm().item()
    if not size:
        raise ValueError("the outputs of these weights on these inputs are all zero: there is no size to compare with")
    return (X @ (W - approximation.double()).T).norm().item() / size


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
    upper Cholesky factor of M⁻¹ and M = XᵀX + λI, λ = damping · the mean of XᵀX's diagonal. A group's scales are those
    of its weights at the moment when its first column is reached.

    Args:
        inputs: X, what the layer reads.
        damping: keeps M invertible where inputs are few or alike; above 0.
        scale_dtype: as for `quantize`.

    Raises:
        ValueError: what `quantize` refuses, damping not above 0, or inputs that are not (n, D).
    """
    check_inputs(weights, inputs)
    split_groups(weights, group_size)  # for its errors
    U, W = inverse_factor(inputs, damping), weights.double().clone()
    codes, scales, size = torch.empty(W.shape, dtype=torch.int8, device=W.device), [], group_size or W.shape[1]
    for j in range(W.shape[1]):
        if j % size == 0:
            scale = absmax_scales(W[:, j : j + size], bits)
            scales.append(scale.to(scale_dtype or scale.dtype))
        column = W[:, j : j + 1]
        codes[:, j : j + 1] = round_to_codes(column, scales[-1], bits)
        error = (column - codes[:, j : j + 1].double() * scales[-1].double()) / U[j, j]
        W[:, j + 1 :] -= error * U[j, j + 1 :]
    return codes, torch.cat(scales, dim=1)


def inverse_factor(inputs: Float[Tensor, "n D"], damping: float = 0.01) -> Float[Tensor, "D D"]:
    """Return the upper triangular U with UᵀU = M⁻¹, M = XᵀX + damping · mean(diagonal of XᵀX) · I, in float64.

    Inputs that are all zero make M the identity.

    Raises:
        ValueError: damping is not above 0.
    """
    if not damping > 0:
        raise ValueError(f"damping is {damping}; it must be above 0")
    M = inputs.double().T @ inputs.double()
    M.diagonal().add_(damping * M.diagonal().mean().item() or 1.0)  # no inputs at all: every weight on its own
    return torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(M)), upper=True)


def gptq_linear(linear: nn.Linear, inputs: Tensor, bits: int, group_size: int | None = None) -> QuantizedLinear:
    """Return the layer with its weights rounded by `gptq`; the bias stays."""
    codes, scales = gptq(linear.weight.detach(), inputs, bits, group_size, scale_dtype=SCALE_DTYPE)
    return QuantizedLinear(codes, scales, bits, detached_bias(linear))


def detached_bias(linear: nn.Linear) -> Tensor | None:
    """Return a layer's bias without its gradient, or None where it has none."""
    return None if linear.bias is None else linear.bias.detach()


def check_inputs(weights: Tensor, inputs: Tensor) -> None:
    """Raise a ValueError unless weights are (out, D) and inputs (n, D), n at least 1, and all numbers are finite."""
    if weights.ndim != 2 or inputs.ndim != 2 or inputs.shape[1] != weights.shape[1] or not len(inputs):
        shapes = f"weights have shape {tuple(weights.shape)} and inputs {tuple(inputs.shape)}"
        raise ValueError(f"{shapes}; they must be (out, D) and (n, D), n at least 1")
    check_finite(weights)
    if not torch.isfinite(inputs).all():
        raise ValueError("inputs hold NaN or infinite numbers; all must be finite")
