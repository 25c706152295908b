"""The kernel of `grouped.grouped_matmul`. A program makes one tile of outputs and finds out itself for which expert.

An expert with n rows has ⌈n / P_TILE⌉ tiles. The host knows no n, so it starts as many programs as there could be
tiles at most; those that find nothing to do end at once.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from .backend import on_device_of


@triton.jit
def grouped_matmul_kernel(
    x_ptr, weights_ptr, offsets_ptr, out_ptr,
    x_stride, weights_stride_e, weights_stride_f, out_stride, offsets_stride,
    E, F, D,
    E_TILE: tl.constexpr, P_TILE: tl.constexpr, F_TILE: tl.constexpr, D_TILE: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    e = tl.arange(0, E_TILE)
    starts = tl.load(offsets_ptr + e * offsets_stride, mask=e < E, other=0).to(tl.int32)
    stops = tl.load(offsets_ptr + (e + 1) * offsets_stride, mask=e < E, other=0).to(tl.int32)
    tiles = (stops - starts + P_TILE - 1) // P_TILE  # of each expert, 0 for one without rows
    expert = tl.sum((tl.cumsum(tiles, 0) <= tile).to(tl.int32), 0)  # the first whose tiles reach beyond this one
    if expert >= E:
        return
    tiles_before = tl.sum(tl.where(e < expert, tiles, 0), 0)
    start = tl.sum(tl.where(e == expert, starts, 0), 0)
    stop = tl.sum(tl.where(e == expert, stops, 0), 0)

    p = (start + (tile - tiles_before) * P_TILE + tl.arange(0, P_TILE)).to(tl.int64)
    f = tl.program_id(1) * F_TILE + tl.arange(0, F_TILE)
    d = tl.arange(0, D_TILE)
    x_ptrs = x_ptr + p[:, None] * x_stride + d[None, :]  # (P_TILE, D_TILE)
    matrix_ptr = weights_ptr + expert.to(tl.int64) * weights_stride_e
    weight_ptrs = matrix_ptr + f[None, :].to(tl.int64) * weights_stride_f + d[:, None]  # (D_TILE, F_TILE)
    out = tl.zeros((P_TILE, F_TILE), tl.float32)
    for first in range(0, D, D_TILE):
        inside = first + d < D
        x = tl.load(x_ptrs, mask=(p[:, None] < stop) & inside[None, :], other=0.0)
        w = tl.load(weight_ptrs, mask=inside[:, None] & (f[None, :] < F), other=0.0)
        out = tl.dot(x, w, out, input_precision="ieee")
        x_ptrs += D_TILE
        weight_ptrs += D_TILE
    out_ptrs = out_ptr + p[:, None] * out_stride + f[None, :]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=(p[:, None] < stop) & (f[None, :] < F))


def tiles_for(P: int, E: int, n_bytes: int) -> dict[str, int]:
    """Return the sizes of the tiles for P rows over E experts, in numbers of `n_bytes`."""
    rows = triton.next_power_of_2(triton.cdiv(P, E))  # of an expert, on average
    return {
        "E_TILE": max(16, triton.next_power_of_2(E)),
        "P_TILE": min(64, max(16, rows)),
        "F_TILE": 64,
        "D_TILE": 32 if n_bytes > 2 else 64,
    }


def grouped_product(
    x: Float[Tensor, "P D"], weights: Float[Tensor, "E F D"], offsets: Int[Tensor, "bounds"]
) -> Float[Tensor, "P F"]:
    """Launch the kernel on checked inputs; what has gaps in its last dimension is copied together."""
    x, weights = (t if t.stride(-1) == 1 else t.contiguous() for t in (x, weights))
    (P, D), (E, F, _) = x.shape, weights.shape
    tiles = tiles_for(P, E, x.element_size())
    out = torch.empty(P, F, dtype=x.dtype, device=x.device)
    # Every expert with rows may have one tile that is not full, and each of those has a row at least.
    most_tiles = P // tiles["P_TILE"] + min(E, P)
    with on_device_of(x):
        grouped_matmul_kernel[most_tiles, triton.cdiv(F, tiles["F_TILE"])](
            x, weights, offsets, out, x.stride(0), *weights.stride()[:2], out.stride(0), offsets.stride(0),
            E, F, D, **tiles, num_warps=4, num_stages=3,
        )  # fmt: skip
    return out
