"""The kernels of `paged.paged_attention`: one program a range of one row's keys, and one a head to merge the ranges.

The G query heads that share a key head meet its keys as rows of one tile, so that each key is read once for them all.
"""

import math

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from .backend import on_device_of


@triton.jit
def paged_split_kernel(
    q_ptr, key_ptr, value_ptr, table_ptr, length_ptr, maximum_ptr, total_ptr, weighted_ptr,
    q_stride_b, q_stride_n, key_stride_k, key_stride_block, value_stride_k, value_stride_block, table_stride_b,
    scale, K, n_splits, block_size,
    G: tl.constexpr, G_TILE: tl.constexpr, H: tl.constexpr, H_TILE: tl.constexpr, S_TILE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)  # b · K + k
    b = row // K
    k = row % K
    split = tl.program_id(1)
    length = tl.load(length_ptr + b).to(tl.int32)
    size = tl.cdiv(length, n_splits)
    first = split * size
    last = tl.minimum(first + size, length)
    g = tl.arange(0, G_TILE)
    h = tl.arange(0, H_TILE)
    is_q = (g[:, None] < G) & (h[None, :] < H)
    q = tl.load(q_ptr + b * q_stride_b + (k * G + g[:, None]) * q_stride_n + h[None, :], mask=is_q, other=0.0)

    maximum = tl.full((G_TILE,), float("-inf"), tl.float32)
    total = tl.zeros((G_TILE,), tl.float32)
    weighted = tl.zeros((G_TILE, H_TILE), tl.float32)
    for start in range(first, last, S_TILE):
        s = start + tl.arange(0, S_TILE)
        inside = s < last
        block = tl.load(table_ptr + b * table_stride_b + s // block_size, mask=inside, other=0).to(tl.int64)
        place = s % block_size * H
        key_ptrs = key_ptr + k * key_stride_k + (block * key_stride_block + place)[None, :] + h[:, None]
        value_ptrs = value_ptr + k * value_stride_k + (block * value_stride_block + place)[:, None] + h[None, :]
        keys = tl.load(key_ptrs, mask=inside[None, :] & (h[:, None] < H), other=0.0)  # (H_TILE, S_TILE)
        values = tl.load(value_ptrs, mask=inside[:, None] & (h[None, :] < H), other=0.0)  # (S_TILE, H_TILE)
        scores = tl.dot(q, keys, input_precision="ieee") * scale  # (G_TILE, S_TILE), logarithms of base 2
        scores = tl.where(inside[None, :], scores, float("-inf"))
        larger = tl.maximum(maximum, tl.max(scores, 1))  # finite: position `start` is inside
        correction = tl.exp2(maximum - larger)
        weights = tl.exp2(scores - larger[:, None])
        total = total * correction + tl.sum(weights, 1)
        weighted = tl.dot(weights.to(values.dtype), values, weighted * correction[:, None], input_precision="ieee")
        maximum = larger
    # A range without keys leaves -inf, 0 and 0: a state that changes nothing.
    state = (row * n_splits + split) * G + g
    tl.store(maximum_ptr + state, maximum, mask=g < G)
    tl.store(total_ptr + state, total, mask=g < G)
    tl.store(weighted_ptr + state[:, None] * H + h[None, :], weighted, mask=is_q)


@triton.jit
def paged_merge_kernel(
    maximum_ptr, total_ptr, weighted_ptr, out_ptr, n_splits,
    G: tl.constexpr, H: tl.constexpr, H_TILE: tl.constexpr, SPLITS_TILE: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)  # b · N + n
    base = head // G * n_splits * G + head % G
    h = tl.arange(0, H_TILE)
    splits = tl.arange(0, SPLITS_TILE)
    there = splits < n_splits
    maxima = tl.load(maximum_ptr + base + splits * G, mask=there, other=float("-inf"))
    totals = tl.load(total_ptr + base + splits * G, mask=there, other=0.0)
    maximum = tl.max(maxima, 0)
    shift = tl.where(maximum == float("-inf"), 0.0, maximum)  # -inf - -inf would be NaN
    total = tl.sum(totals * tl.exp2(maxima - shift), 0)
    weighted = tl.zeros((H_TILE,), tl.float32)
    for split in range(n_splits):
        state = base + split * G
        factor = tl.exp2(tl.load(maximum_ptr + state) - shift)
        weighted += factor * tl.load(weighted_ptr + state * H + h, mask=h < H, other=0.0)
    out = weighted / tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + head * H + h, out.to(out_ptr.dtype.element_ty), mask=h < H)


def tiles_for(G: int, H: int, n_bytes: int) -> dict[str, int]:
    """Return the sizes of the tiles for G query heads a key head and H numbers of `n_bytes`; one of keys has 16 KB."""
    G_TILE = max(16, triton.next_power_of_2(G))  # 16 rows are the least that a matrix unit takes
    H_TILE = max(16, triton.next_power_of_2(H))
    S_TILE = max(16, min(64, 16384 // (H_TILE * n_bytes)))
    return {"G": G, "G_TILE": G_TILE, "H": H, "H_TILE": H_TILE, "S_TILE": S_TILE}


def paged_decode(
    q: Float[Tensor, "B N 1 H"],
    key_blocks: Float[Tensor, "K blocks numbers"],
    value_blocks: Float[Tensor, "K blocks numbers"],
    block_tables: Int[Tensor, "B M"],
    lengths: Int[Tensor, "B"],
    n_splits: int,
    scale: float,
) -> Float[Tensor, "B N 1 H"]:
    """Launch both kernels on checked inputs; what has gaps in its last dimension is copied together."""
    q, key_blocks, value_blocks, block_tables = (
        x if x.stride(-1) == 1 else x.contiguous() for x in (q, key_blocks, value_blocks, block_tables)
    )
    lengths = lengths.contiguous()
    B, N, _, H = q.shape
    K, _, numbers = key_blocks.shape
    tiles = tiles_for(N // K, H, q.element_size())
    # float32 states of all ranges, side by side: maxima and totals (B, K, n_splits, G), sums with H numbers behind.
    maxima, totals = torch.empty(2, B * N * n_splits, dtype=torch.float32, device=q.device)
    weighted = torch.empty(B * N * n_splits, H, dtype=torch.float32, device=q.device)
    out = torch.empty(B, N, 1, H, dtype=q.dtype, device=q.device)
    strides = (*q.stride()[:2], *key_blocks.stride()[:2], *value_blocks.stride()[:2], block_tables.stride(0))
    merge_tiles = {"G": N // K, "H": H, "H_TILE": tiles["H_TILE"], "SPLITS_TILE": triton.next_power_of_2(n_splits)}
    with on_device_of(q):
        paged_split_kernel[B * K, n_splits](
            q, key_blocks, value_blocks, block_tables, lengths, maxima, totals, weighted, *strides,
            scale * math.log2(math.e), K, n_splits, numbers // H, **tiles, num_warps=4, num_stages=2,
        )  # fmt: skip
        paged_merge_kernel[(B * N,)](maxima, totals, weighted, out, n_splits, **merge_tiles, num_warps=4)
    return out
