"""Attention on a CPU over keys and values where they lie, in rows or in blocks: by `attention.c`, where it is compiled.

Torch's attention wants rows of one length: blocks have to be gathered first, and the shorter rows padded. Here each
query reads what is its own, codes of 8 bits as they are. A query's sums are taken by position in one order: it gets the
bits that it gets alone, in any batch, chunk, pool of blocks and number of threads.

The method: Dao 2022 ("FlashAttention") without the tiles, whose scores fit into the cache; Kwon 2023
("PagedAttention"), section 4.1.
"""

import ctypes
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .compiled import Layout, Library
from .products import products_library

_NAMES = {torch.float32: "attend_float32", torch.bfloat16: "attend_bfloat16", torch.int8: "attend_int8"}
_FEW_BYTES = 1 << 18  # of keys and values: below, a second thread is woken for longer than it works


def attends_rows(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether `row_attention` takes these: rows on a CPU, of one length of number, heads of a multiple of 32."""
    H = q.shape[-1]
    return (
        q.is_cpu
        and _library_for(q.dtype, k, H) is not None
        and k.dtype is v.dtype is not torch.int8
        and k.shape == v.shape
        and k.stride() == v.stride()
        and k.stride()[2:] == (H, 1)
        and not (torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad))
    )


def follows_tables(queries: torch.dtype, pool: Tensor, H: int) -> bool:
    """Whether `block_attention` takes queries of this dtype over this pool, whose heads have H numbers."""
    return _library_for(queries, pool, H) is not None


def _library_for(queries: torch.dtype, kept: Tensor, H: int) -> Library | None:
    """The library, if it is here and takes queries of this dtype over heads of H numbers that are kept like these."""
    if not kept.is_cpu or queries not in (torch.float32, torch.bfloat16) or H % 32 or kept.dtype not in _NAMES:
        return None
    if kept.dtype is not torch.int8 and kept.dtype is not queries:
        return None
    library = products_library()
    return library if isinstance(library, Library) else None


def row_attention(
    q: Float[Tensor, "B N T H"], k: Float[Tensor, "B K S H"], v: Float[Tensor, "B K S H"], scale: float | None = None
) -> Float[Tensor, "B N T H"]:
    """Return softmax(scale · q·kᵀ)·v, causal: the T queries are the last T of the S positions.

    Only for what `attends_rows` takes. k and v may be the filled part of longer rows.

    Args:
        scale: of the scores; None means 1 / √H.
    """
    T, (_, K, S, H) = q.shape[2], k.shape
    layout = Layout(keys=k.data_ptr(), values=v.data_ptr(), K=K, length=S - T + 1, block_size=S)
    layout.heads, layout.blocks = k.stride(1) // H, k.stride(0) // H
    return _attend(q, layout, k, S, scale)


def block_attention(
    q: Float[Tensor, "B N T H"],
    pool: Tensor,
    tables: Int[Tensor, "B M"],
    lengths: Int[Tensor, "B"],
    longest: int,
    scale: float | None = None,
    scales: Tensor | None = None,
) -> Float[Tensor, "B N T H"]:
    """Return what `row_attention` does, of rows whose positions lie in blocks. Only for what `follows_tables` says.

    Tables and lengths are not looked at: a wrong number reads memory that is somebody else's.

    Args:
        pool: a layer of a paged cache, (2, K, n_blocks, block_size · H), keys and values.
        tables: each row's blocks in order, int64; behind its last one in use any number may stand.
        lengths: the positions that each row's first query sees, its own among them, int64.
        longest: the largest of the lengths; the row's last query sees T - 1 more.
        scales: of a pool of int8 codes: bfloat16, (2, K, n_blocks, block_size).

    Raises:
        ValueError: queries or a pool that the library does not take.
    """
    (keys, values), H = pool, q.shape[-1]
    tables, lengths = tables.contiguous(), lengths.contiguous()
    K, n_blocks, numbers = keys.shape
    layout = Layout(keys=keys.data_ptr(), values=values.data_ptr(), K=K, M=tables.stride(0))
    layout.tables, layout.lengths = tables.data_ptr(), lengths.data_ptr()
    layout.block_size = layout.blocks = numbers // H
    layout.heads = n_blocks * layout.blocks
    if scales is not None:
        layout.key_scales, layout.value_scales = scales[0].data_ptr(), scales[1].data_ptr()
    return _attend(q, layout, pool, longest + q.shape[2] - 1, scale)


def _attend(q: Tensor, layout: Layout, kept: Tensor, longest: int, scale: float | None) -> Tensor:
    library = _library_for(q.dtype, kept, q.shape[-1])
    if library is None:
        raise ValueError(f"q holds {q.dtype} in heads of {q.shape[-1]}, kept as {kept.dtype}; see `follows_tables`")
    B, layout.N, layout.T, layout.H = q.shape
    layout.scale = 1 / math.sqrt(layout.H) if scale is None else scale
    n_bytes = 2 * B * layout.K * longest * layout.H * kept.itemsize
    threads = torch.get_num_threads() if n_bytes > _FEW_BYTES and library.has_threads else 1
    rows, out = q.float().contiguous(), torch.empty(q.shape, dtype=torch.float32)
    scratch = torch.empty(threads, 4 * -(-longest // 32) * 32, dtype=torch.float32)
    attend = library.functions[_NAMES[kept.dtype]]
    attend(rows.data_ptr(), B, ctypes.byref(layout), scratch.data_ptr(), scratch.shape[1], out.data_ptr(), threads)
    return out.to(q.dtype)
