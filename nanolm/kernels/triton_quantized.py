"""The kernel of `quantization.quantized_matmul`. A program makes a few outputs for 16 rows and walks along D.

Each tile of codes lies within one group, so its scale is applied once, to the tile's sums.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int8, UInt8
from torch import Tensor

from .backend import on_device_of

R_TILE = 16  # rows of x at a time: the least that a matrix unit takes
LARGEST_TILE = 256  # columns at a time: four tiles of x in float32, which are fetched ahead, fit beside each other


@triton.jit
def quantized_matvec_kernel(
    x_ptr, codes_ptr, scales_ptr, y_ptr, x_stride, codes_stride, scales_stride, y_stride,
    n_rows, n_outputs, n_tiles, tiles_per_group, bytes_per_group,
    BITS: tl.constexpr, R_TILE: tl.constexpr, O_TILE: tl.constexpr, C_TILE: tl.constexpr,
):  # fmt: skip
    o = (tl.program_id(0) * O_TILE + tl.arange(0, O_TILE)).to(tl.int64)
    r = (tl.program_id(1) * R_TILE + tl.arange(0, R_TILE)).to(tl.int64)
    y = tl.zeros((R_TILE, O_TILE), tl.float32)
    for i in range(n_tiles):
        group = i // tiles_per_group
        within = i % tiles_per_group * C_TILE + tl.arange(0, C_TILE)
        inside = within < bytes_per_group
        byte = group * bytes_per_group + within  # (C_TILE,)
        weight_mask = inside[:, None] & (o[None, :] < n_outputs)
        codes = tl.load(codes_ptr + o[None, :] * codes_stride + byte[:, None], mask=weight_mask, other=0)
        if BITS == 8:
            x_mask = (r[:, None] < n_rows) & inside[None, :]
            x = tl.load(x_ptr + r[:, None] * x_stride + byte[None, :], mask=x_mask, other=0.0)  # (R_TILE, C_TILE)
            product = tl.dot(x, codes.to(x.dtype), input_precision="ieee")
        else:  # byte i holds code 2i in its low half and code 2i + 1 in its high half
            column = i % tiles_per_group * (2 * C_TILE) + tl.arange(0, 2 * C_TILE)
            x_mask = (r[:, None] < n_rows) & (column < 2 * bytes_per_group)[None, :]
            column += group * (2 * bytes_per_group)
            x = tl.load(x_ptr + r[:, None] * x_stride + column[None, :], mask=x_mask, other=0.0)
            even, odd = tl.split(tl.reshape(x, (R_TILE, C_TILE, 2)))
            low = ((codes & 15).to(tl.int8) - 8).to(x.dtype)
            high = ((codes >> 4).to(tl.int8) - 8).to(x.dtype)
            product = tl.dot(odd, high, tl.dot(even, low, input_precision="ieee"), input_precision="ieee")
        scale = tl.load(scales_ptr + o * scales_stride + group, mask=o < n_outputs, other=0.0).to(tl.float32)
        y += product * scale[None, :]
    y_mask = (r[:, None] < n_rows) & (o[None, :] < n_outputs)
    tl.store(y_ptr + r[:, None] * y_stride + o[None, :], y.to(y_ptr.dtype.element_ty), mask=y_mask)


def tiles_for(bits: int, bytes_per_group: int, n_bytes: int) -> dict[str, int]:
    """Return the sizes of the tiles for x in numbers of `n_bytes`, and how many tiles are on their way at a time.

    For two bytes: the fastest of 15 combinations on an H200 (benchmarks/README.md). For four: what fits.
    """
    C_TILE = min(LARGEST_TILE * bits // 8, max(16, triton.next_power_of_2(bytes_per_group)))  # in bytes
    outputs, stages = (32, 6 if bits == 8 else 4) if n_bytes <= 2 else (16, 4)
    return {"R_TILE": R_TILE, "O_TILE": outputs, "C_TILE": C_TILE, "num_stages": stages}


def quantized_matvec(
    x: Float[Tensor, "... D"],
    codes: Int8[Tensor, "out D"] | UInt8[Tensor, "out bytes"],
    scales: Float[Tensor, "out G"],
    bits: int,
) -> Float[Tensor, "... out"]:
    """Launch the kernel on checked inputs; what has gaps in its last dimension is copied together."""
    rows, codes, scales = (
        t if t.stride(-1) == 1 else t.contiguous() for t in (x.reshape(-1, x.shape[-1]), codes, scales)
    )
    n_rows, n_outputs, G = len(rows), len(codes), scales.shape[1]
    bytes_per_group = codes.shape[1] // G
    tiles = tiles_for(bits, bytes_per_group, x.element_size())
    tiles_per_group = triton.cdiv(bytes_per_group, tiles["C_TILE"])
    y = torch.empty(n_rows, n_outputs, dtype=x.dtype, device=x.device)
    grid = triton.cdiv(n_outputs, tiles["O_TILE"]), triton.cdiv(n_rows, R_TILE)
    with on_device_of(x):
        quantized_matvec_kernel[grid](
            rows, codes, scales, y, rows.stride(0), codes.stride(0), scales.stride(0), y.stride(0),
            n_rows, n_outputs, G * tiles_per_group, tiles_per_group, bytes_per_group,
            BITS=bits, **tiles, num_warps=4,
        )  # fmt: skip
    return y.view(*x.shape[:-1], n_outputs)
