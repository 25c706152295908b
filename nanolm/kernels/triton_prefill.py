"""The kernel of `prefill_attention`. A program holds a tile of queries of one head and walks along the keys."""

import math

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from .backend import on_device_of


@triton.jit
def flash_prefill_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    q_stride_b, q_stride_n, q_stride_t,
    k_stride_b, k_stride_k, k_stride_s,
    v_stride_b, v_stride_k, v_stride_s,
    out_stride_b, out_stride_n, out_stride_t,
    scale, N, G, T, S,
    H: tl.constexpr, H_TILE: tl.constexpr, T_TILE: tl.constexpr, S_TILE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)  # b · N + n; 64 bits, for a long cache has more than 2³¹ numbers
    b = row // N
    n = row % N
    tile = tl.num_programs(1) - 1 - tl.program_id(1)  # the last tile has most keys to meet: it starts first
    t = tile * T_TILE + tl.arange(0, T_TILE)
    h = tl.arange(0, H_TILE)
    s = tl.arange(0, S_TILE)
    q_ptrs = q_ptr + b * q_stride_b + n * q_stride_n + t[:, None].to(tl.int64) * q_stride_t + h[None, :]
    q = tl.load(q_ptrs, mask=(t[:, None] < T) & (h[None, :] < H), other=0.0)  # (T_TILE, H_TILE)
    k_ptrs = k_ptr + b * k_stride_b + n // G * k_stride_k + s[None, :] * k_stride_s + h[:, None]  # (H_TILE, S_TILE)
    v_ptrs = v_ptr + b * v_stride_b + n // G * v_stride_k + s[:, None] * v_stride_s + h[None, :]  # (S_TILE, H_TILE)

    position = S - T + t
    end = tl.minimum(S, S - T + (tile + 1) * T_TILE)  # no query of this tile sees a key from here on
    maximum = tl.full((T_TILE,), float("-inf"), tl.float32)
    total = tl.zeros((T_TILE,), tl.float32)
    weighted = tl.zeros((T_TILE, H_TILE), tl.float32)
    for first in range(0, end, S_TILE):
        here = first + s
        k = tl.load(k_ptrs, mask=(here[None, :] < end) & (h[:, None] < H), other=0.0)
        v = tl.load(v_ptrs, mask=(here[:, None] < end) & (h[None, :] < H), other=0.0)
        scores = tl.dot(q, k, input_precision="ieee") * scale  # (T_TILE, S_TILE), logarithms of base 2
        scores = tl.where(here[None, :] <= position[:, None], scores, float("-inf"))
        # Key 0 is seen by all: from the first tile on the maximum is finite, and no -inf is taken from -inf.
        larger = tl.maximum(maximum, tl.max(scores, 1))
        correction = tl.exp2(maximum - larger)
        weights = tl.exp2(scores - larger[:, None])
        total = total * correction + tl.sum(weights, 1)
        weighted = tl.dot(weights.to(v.dtype), v, weighted * correction[:, None], input_precision="ieee")
        maximum = larger
        k_ptrs += S_TILE * k_stride_s
        v_ptrs += S_TILE * v_stride_s
    out_ptrs = out_ptr + b * out_stride_b + n * out_stride_n + t[:, None].to(tl.int64) * out_stride_t + h[None, :]
    out = (weighted / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptrs, out, mask=(t[:, None] < T) & (h[None, :] < H))


def tiles_for(T: int, H: int, n_bytes: int) -> dict[str, int]:
    """Return the sizes of the tiles for T queries of H numbers of `n_bytes`; one of keys has 16 KB at most."""
    H_TILE = max(16, triton.next_power_of_2(H))
    S_TILE = max(16, min(64, 16384 // (H_TILE * n_bytes)))
    return {"H": H, "H_TILE": H_TILE, "T_TILE": min(S_TILE, max(16, triton.next_power_of_2(T))), "S_TILE": S_TILE}


def stages_for(H: int, n_bytes: int) -> int:
    """Return how many tiles of keys are on their way at a time: where three fit, they are faster than two."""
    return 3 if H * n_bytes <= 256 else 2


def flash_prefill(
    q: Float[Tensor, "B N T H"], k: Float[Tensor, "B K S H"], v: Float[Tensor, "B K S H"]
) -> Float[Tensor, "B N T H"]:
    """Launch the kernel on checked inputs; their last dimension is copied together where it has gaps."""
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    B, N, T, H = q.shape
    K, S = k.shape[1:3]
    out = torch.empty(B, N, T, H, dtype=q.dtype, device=q.device)
    strides = [stride for x in (q, k, v, out) for stride in x.stride()[:3]]
    scale = math.log2(math.e) / math.sqrt(H)  # the kernel takes powers of 2, which are one instruction
    tiles = tiles_for(T, H, q.element_size())
    launch = {"num_warps": 4, "num_stages": stages_for(H, q.element_size())}
    with on_device_of(q):
        grid = (B * N, triton.cdiv(T, tiles["T_TILE"]))
        flash_prefill_kernel[grid](q, k, v, out, *strides, scale, N, N // K, T, S, **tiles, **launch)
    return out
