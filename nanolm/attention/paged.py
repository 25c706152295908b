"""Attention of one new token a row whose keys and values lie in blocks all over a pool: the kernel of paged decode.

A decode step has few queries, so its keys are cut into ranges that are worked on side by side and merged (split-K).
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .._require import require_count, require_positive
from ..kernels.backend import Backend, uses_triton
from ..kernels.checks import require_alike, require_dims, require_indices, require_one_device
from . import flash
from .prefill import LARGEST_HEAD


def paged_attention(
    q: Float[Tensor, "B N 1 H"],
    key_blocks: Float[Tensor, "K blocks numbers"],
    value_blocks: Float[Tensor, "K blocks numbers"],
    block_tables: Int[Tensor, "B M"],
    lengths: Int[Tensor, "B"],
    n_splits: int,
    scale: float | None = None,
    backend: Backend | None = None,
    check: bool | None = None,
) -> Float[Tensor, "B N 1 H"]:
    """Return softmax(scale · q·kᵀ)·v for one query a row, which sees the first lengths[b] positions of its row.

    Position s of row b is place s mod block_size of block block_tables[b, s // block_size]. A row of length 0 gives 0.
    Nothing is read behind a row's length, neither of a table nor of a block. The torch path gathers the blocks and
    calls `flash.split_k_attention`; Triton's kernel follows the table, and sums in float32.

    Args:
        key_blocks, value_blocks: the two halves of a layer's pool of a `PagedKVCache`, (K, n_blocks, block_size · H).
        block_tables: the blocks of each row in order; behind a row's last block in use any number may stand.
        lengths: filled positions of each row, the new token's included.
        n_splits: ranges that a row's keys are cut into; the result does not depend on it, the time does.
        scale: of the scores; None means 1 / √H.
        backend: who computes; None leaves it to `set_backend`.
        check: look at the numbers in tables and lengths (`check_tables`). None: on a CPU yes, on a GPU no, where the
            host would have to wait for them in every layer. Unchecked, a wrong number reads any memory there is.

    Raises:
        ValueError: shapes that do not fit, N no multiple of K; n_splits not a whole number, 1 or more; scale not above
            0; different dtypes or devices; where checked, what `check_tables` refuses.
        KernelUnavailable: "triton" was chosen and cannot compute this.

    Source: Kwon 2023 ("PagedAttention"), section 4.1; Dao 2023 ("Flash-Decoding for long-context inference").
    """
    require_count(1, n_splits=n_splits)
    _require_shapes(q, key_blocks, value_blocks, block_tables, lengths)
    H, scale = q.shape[-1], 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    require_positive(scale=scale)
    if check or (check is None and not lengths.is_cuda):
        check_tables(block_tables, lengths, key_blocks.shape[1], key_blocks.shape[2] // H)
    too_wide = f"H is {H}, and it takes up to {LARGEST_HEAD}" if H > LARGEST_HEAD else None
    tensors = {"q": q, "key_blocks": key_blocks, "value_blocks": value_blocks}
    if q.numel() and uses_triton(backend, too_wide, **tensors, block_tables=block_tables, lengths=lengths):
        from ..kernels.triton_paged import paged_decode

        return paged_decode(q, key_blocks, value_blocks, block_tables, lengths, int(n_splits), scale)
    k, v = (gather_blocks(blocks, block_tables, lengths, H) for blocks in (key_blocks, value_blocks))
    wide = torch.promote_types(q.dtype, torch.float32)
    q_scaled = q.to(wide) * (scale * math.sqrt(H))  # split_k_attention divides by √H
    return flash.split_k_attention(q_scaled, k, v, n_splits, lengths).to(q.dtype)


def gather_blocks(
    blocks: Float[Tensor, "K blocks numbers"], block_tables: Int[Tensor, "B M"], lengths: Int[Tensor, "B"], H: int
) -> Float[Tensor, "B K S H"]:
    """Return every row's positions in order, S = M · block_size; behind its last block in use stands block 0."""
    (B, M), (K, _, numbers) = block_tables.shape, blocks.shape
    block_size = numbers // H
    used = torch.arange(M, device=lengths.device) * block_size < lengths[:, None]  # (B, M)
    rows = blocks.index_select(1, block_tables.where(used, 0).flatten())  # (K, B · M, block_size · H)
    return rows.view(K, B, M * block_size, H).transpose(0, 1)


def check_tables(block_tables: Int[Tensor, "B M"], lengths: Int[Tensor, "B"], n_blocks: int, block_size: int) -> None:
    """Raise a ValueError unless every row has blocks for its length, all in the pool and none twice.

    Only the blocks that a row's length needs are looked at. Two rows may share a block: a prefix in common. The host
    waits for a GPU here, so one call a pass, not one a layer.
    """
    width = block_tables.shape[1] * block_size
    rows = zip(block_tables.tolist(), lengths.tolist(), strict=True)
    for row, (table, length) in enumerate(rows):
        if not 0 <= length <= width:
            raise ValueError(f"lengths[{row}] is {length}; a table of {len(table)} blocks holds 0 to {width} positions")
        used = table[: -(-length // block_size)]
        wrong = [block for block in used if not 0 <= block < n_blocks]
        if wrong:
            raise ValueError(f"block_tables[{row}] names block {wrong[0]}; the pool has blocks 0 to {n_blocks - 1}")
        if len(set(used)) < len(used):
            twice = next(block for block in used if used.count(block) > 1)
            raise ValueError(f"block_tables[{row}] names block {twice} twice; a block holds one place of a text")


def _require_shapes(q: Tensor, key_blocks: Tensor, value_blocks: Tensor, block_tables: Tensor, lengths: Tensor) -> None:
    require_dims(4, "(B, N, 1, H)", q=q)
    require_dims(3, "(K, n_blocks, block_size · H)", key_blocks=key_blocks, value_blocks=value_blocks)
    require_dims(2, "(B, blocks of a row)", block_tables=block_tables)
    (B, N, T, H), (K, n_blocks, numbers) = q.shape, key_blocks.shape
    if T != 1:
        raise ValueError(f"q has {T} queries; a row of a decode step has one")
    if value_blocks.shape != key_blocks.shape or not n_blocks or not numbers or numbers % H:
        raise ValueError(
            f"key_blocks has shape {tuple(key_blocks.shape)} and value_blocks {tuple(value_blocks.shape)}; both must "
            f"be (K, n_blocks, block_size · H) with H = {H}"
        )
    if N % K:
        raise ValueError(f"q has {N} heads and key_blocks {K}; query heads share key heads evenly: N a multiple of K")
    if len(block_tables) != B or not block_tables.shape[1]:
        raise ValueError(f"block_tables has shape {tuple(block_tables.shape)}; it must be ({B}, 1 or more)")
    if lengths.shape != (B,):
        raise ValueError(f"lengths has shape {tuple(lengths.shape)}; it must be ({B},), one a row of q")
    require_alike(q=q, key_blocks=key_blocks, value_blocks=value_blocks)
    require_indices(block_tables=block_tables, lengths=lengths)
    require_one_device(q=q, block_tables=block_tables, lengths=lengths)
