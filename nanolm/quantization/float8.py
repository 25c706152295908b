"""8-bit floats (E4M3: 4 bits of exponent, 3 of mantissa), in weights and in activations.

Unlike int8 codes, floats are multiplied by some processors as they are, so 8 bits help prefill too, which waits for
arithmetic. Elsewhere the arithmetic is simulated: the same rounding, the products in float32. The storage of a byte a
number is real everywhere. (Micikevicius 2022, "FP8 formats for deep learning".)
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..batch_invariant import tile_linear
from .absmax import check_finite

FLOAT8 = torch.float8_e4m3fn
LARGEST_FLOAT8 = 448.0  # 1.75 · 2^8; the format has no infinity, and a conversion of more gives NaN


def has_float8(device: torch.device | str) -> bool:
    """Return whether the device multiplies 8-bit floats itself: NVIDIA GPUs of compute capability 8.9 or more."""
    device = torch.device(device)
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 9)


def to_float8(x: Float[Tensor, "... D"]) -> tuple[Float[Tensor, "... D"], Float[Tensor, "... 1"]]:
    """Return (8-bit floats, float32 scales), x = float · scale: one scale a row, which makes its largest number 448.

    Each number keeps 4 significant binary digits, so it is off by at most a sixteenth of itself; int8 codes are off by
    the same amount throughout a row. A row of zeros has scale 1.

    Raises:
        ValueError: a number that is NaN or infinite.
    """
    check_finite(x)
    scales = x.float().abs().amax(dim=-1, keepdim=True) / LARGEST_FLOAT8
    scales = torch.where(scales > 0, scales, 1.0)
    return (x / scales).clamp(-LARGEST_FLOAT8, LARGEST_FLOAT8).to(FLOAT8), scales


def saturated(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return x as 8-bit floats, (...), without a scale: numbers beyond ±448 become ±448, and infinity NaN.

    The format has no infinity. A large number may be held at the largest there is; a broken one must stay broken.
    """
    return torch.where(x.isinf(), torch.nan, x.clamp(-LARGEST_FLOAT8, LARGEST_FLOAT8)).to(FLOAT8)


def float8_matmul(
    x: Float[Tensor, "... D"], weights: Float[Tensor, "out D"], scales: Float[Tensor, "out 1"]
) -> Float[Tensor, "... out"]:
    """Return x · Ŵᵀ in x's dtype for what `to_float8` has made of W, with x rounded to 8-bit floats as well."""
    rows, row_scales = to_float8(x.reshape(-1, x.shape[-1]))
    multiply = multiply_float8 if has_float8(x.device) else simulate_float8
    return multiply(rows, row_scales, weights, scales).to(x.dtype).view(*x.shape[:-1], -1)


def multiply_float8(rows: Tensor, row_scales: Tensor, weights: Tensor, scales: Tensor) -> Tensor:
    """Return the product of 8-bit floats, (n, out), by the device's own instructions. D and out: multiples of 16."""
    by_row = F.ScalingType.RowWise
    return F.scaled_mm(rows, weights.T, row_scales, by_row, scales.T, by_row, output_dtype=torch.bfloat16)


def simulate_float8(rows: Tensor, row_scales: Tensor, weights: Tensor, scales: Tensor) -> Tensor:
    """Return the same product, (n, out), of the same rounded numbers, widened to float32 before they are multiplied.

    A row has the same bits in any batch (`tile_linear`).
    """
    return tile_linear(rows.float(), weights.float()) * row_scales * scales.T


class Float8Linear(nn.Module):
    """A drop-in for nn.Linear that holds 8-bit floats and rounds what it reads to 8-bit floats.

    Attributes:
        floats: (out, D).
        scales: float32 (out, 1).
        bias: (out,) or None.
    """

    floats: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        floats, scales = to_float8(linear.weight.detach())
        self.register_buffer("floats", floats)
        self.register_buffer("scales", scales)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... out"]:
        """Return x · Ŵᵀ + bias in x's dtype."""
        y = float8_matmul(x, self.floats, self.scales)
        return y if self.bias is None else y + self.bias
