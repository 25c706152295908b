"""Requests of a pass as the rows of a cache whose keys and values lie in blocks: gathered, or followed by a kernel.

The rows of one tensor are all as long as the longest: what a row lacks is gathered and attended to for nothing. One
request of 1,900 positions beside 15 of 64 made a pass four times as long. So rows are cut into groups by their length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..attention.paged import paged_attention
from ..cache.contiguous import KVCache
from ..kernels.cpu_attention import block_attention
from ..paging.blocks import BlockTable, blocks_for
from ..paging.paged_cache import PagedKVCache, Scratch
from ..paging.table_rows import TableRows
from ..window.masks import sliding_window_mask

# Ranges of a text that a GPU works on side by side; one token of few requests would leave it idle. Always as many,
# though few texts would like more: the order in which a text's sums are taken must not depend on who else is served.
_N_SPLITS = 4
# A group costs every layer a dozen operations more, the time of as many bytes of padding: measured on a CPU with the
# shipped target, reckoned on a GPU (60 µs of launches at 1 TB/s).
_GROUP_BYTES = {"cpu": 1 << 18, "cuda": 1 << 26}
# A prompt's blocks are gathered once for many queries, which costs little, and `KVCache.attend` goes on from there.
_MOST_QUERIES = {"triton": 1, "compiled": 16}
_SMALL = 1 << 17  # bytes: so little memory costs nothing to take anew
_LONGER = 1.5  # rows less unequal than this stay together; so there are few groups, however many lengths


Kernel = Literal["triton", "compiled"]


@dataclass(frozen=True)
class Segment:
    """One request's part of a pass.

    Attributes:
        tokens: the T tokens to run, T at least 1.
        past: its positions in the cache, which come before them.
        table: where its past + T positions lie.
        n_scored: logits are wanted behind the last n_scored tokens; 0 for a part of a prompt that is not the end.
    """

    tokens: Sequence[int]
    past: int
    table: BlockTable
    n_scored: int = 1


@dataclass(frozen=True)
class Shortcuts:
    """What a pass may use for speed.

    Attributes:
        tables: keeps the block tables from pass to pass, and has been told of this one; None makes tensors of them.
        scratch: where blocks are gathered.
        kernel: who attends by following block tables, nothing gathered: "triton" to rows of one token, on a GPU;
            "compiled" to rows of a few, on a CPU; None, nobody.
    """

    tables: TableRows | None
    scratch: Scratch
    kernel: Kernel | None

    def follows(self, T: int, window: int | None) -> bool:
        """Whether the kernel attends to rows of T tokens, which see so far."""
        return window is None and self.kernel is not None and _MOST_QUERIES[self.kernel] >= T


class PagedRows(KVCache):
    """Requests with equally many new tokens as the rows of a cache whose keys and values lie in blocks.

    It lives for one pass. `attend` is KVCache's own, over an `update` and a `mask` of this class.

    Args:
        pool: where the blocks are.
        segments: of T tokens each.
        fast: what may be used for speed; None is the plain way.
        window: positions that a query sees, its own among them; None for all. A row then begins with the block that
            holds the first one that its first query sees.
    """

    def __init__(
        self,
        pool: PagedKVCache,
        segments: Sequence[Segment],
        fast: Shortcuts | None = None,
        window: int | None = None,
    ) -> None:
        self.pool, self.batch_size, self.T = pool, len(segments), len(segments[0].tokens)
        self._fast, self._window = fast, window
        self.slots = [slot for each in segments for slot in each.table.slot_mapping(each.past, each.past + self.T)]
        firsts = [max(0, each.past - window + 1) // pool.block_size if window else 0 for each in segments]
        pasts = [each.past - first * pool.block_size for each, first in zip(segments, firsts, strict=True)]
        self.capacity = max(pasts) + self.T  # of the longest row, this pass included
        self.tables = self._tables([segment.table for segment in segments], firsts)
        by_kernel = fast is not None and fast.follows(self.T, window)
        self._kernel = fast.kernel if fast is not None else None
        self._lengths = torch.tensor(pasts, device=self.tables.device) + 1 if by_kernel else None
        self._mask = None if by_kernel else self._mask_of(pasts)
        n_bytes = self.tables.numel() * pool.block_bytes // len(pool.pools)  # that a layer gathers
        self._scratch = fast.scratch if fast is not None and n_bytes > _SMALL else None

    def _tables(self, tables: Sequence[BlockTable], firsts: Sequence[int]) -> Tensor:
        n_blocks = blocks_for(self.capacity, self.pool.block_size)
        if self._fast and self._fast.tables:
            return self._fast.tables.select(tables, firsts, n_blocks)
        # Filled up with a block of the row's own: what another's holds, a NaN perhaps, would pass the mask.
        held = [table.blocks[first : first + n_blocks] for table, first in zip(tables, firsts, strict=True)]
        filled = [[*row, *row[-1:] * (n_blocks - len(row))] for row in held]
        return torch.tensor(filled).to(self.pool.pools[0].device)

    def _mask_of(self, pasts: Sequence[int]) -> Bool[Tensor, "T S"] | Float[Tensor, "B 1 T S"] | None:
        """What `mask` returns in every layer; one row for all where they are equally long."""
        if self._fast is None and self._window:
            return sliding_window_mask(self.T, self.capacity, self._window, self.tables.device)
        if min(pasts) == max(pasts):
            sees_all = self._window is None or self.capacity <= self._window
            needs_none = self.T == 1 or not pasts[0] or self._kernel == "compiled"
            if self._fast is None or (sees_all and needs_none):
                return None
            pasts = pasts[:1]
        device, first = self.tables.device, 0 if self._window else min(pasts)  # before it everything is seen
        last_seen = torch.tensor(pasts, device=device)[:, None, None] + torch.arange(self.T, device=device)[:, None]
        positions = torch.arange(first, self.capacity, device=device)
        hidden = positions > last_seen  # (B, T, S - first)
        if self._window:
            hidden |= positions <= last_seen - self._window
        mask = torch.zeros(len(pasts), 1, self.T, self.capacity, dtype=self.pool.dtype, device=device)
        mask[:, 0, :, first:].masked_fill_(hidden, float("-inf"))
        return mask

    def update(
        self, layer: int, k: Float[Tensor, "B K T H"], v: Float[Tensor, "B K T U"]
    ) -> tuple[Float[Tensor, "B K S H"], Float[Tensor, "B K S U"]]:
        """Return each row's blocks in order, cut behind the longest row; the batch has written k and v there before."""
        keys, values = self.pool.read(layer, self.tables, self._scratch)
        return keys[:, :, : self.capacity], values[:, :, : self.capacity]

    def attend(
        self,
        layer: int,
        q: Float[Tensor, "B N T H"],
        k: Float[Tensor, "B K T H"],
        v: Float[Tensor, "B K T U"],
        scale: float | None = None,
    ) -> Float[Tensor, "B N T U"]:
        """As KVCache.attend; where a kernel follows the tables, nothing is gathered."""
        if self._lengths is not None:
            if self._kernel == "compiled":
                pool, scales = self.pool.pools[layer], self.pool.scales_of(layer)
                longest = self.capacity - self.T + 1
                return block_attention(q, pool, self.tables, self._lengths, longest, scale, scales)
            keys, values = self.pool.pools[layer]
            return paged_attention(q, keys, values, self.tables, self._lengths, _N_SPLITS, scale)
        return super().attend(layer, q, k, v, scale)

    def mask(self, T: int) -> Tensor | None:
        """Return what hides from a row's queries what is not theirs to see, as `attend` takes it; None: causal."""
        return self._mask

    def in_rows(self, x: Float[Tensor, "1 N n H"]) -> Float[Tensor, "B N T H"]:
        """Return the batch's n = B · T positions as this cache's rows."""
        if self.T == 1:
            return x.transpose(0, 2)
        return x if self.batch_size == 1 else x[0].unflatten(1, (-1, self.T)).transpose(0, 1)

    def in_line(self, x: Float[Tensor, "B N T H"]) -> Float[Tensor, "1 N n H"]:
        """Return the rows one behind the other, as the batch has them."""
        if self.T == 1:
            return x.transpose(0, 2)
        return x if self.batch_size == 1 else x.transpose(0, 1).flatten(1, 2).unsqueeze(0)


def groups_of(
    pool: PagedKVCache, segments: Sequence[Segment], fast: Shortcuts | None, window: int | None = None
) -> list[list[Segment]]:
    """Return the segments, in their order, in groups that are to be rows of one tensor; the plain way each by itself.

    Args:
        segments: those with equally many tokens are neighbours, the longest first.
        window: as for PagedRows.
    """
    if fast is None:
        return [[segment] for segment in segments]
    group_bytes = _GROUP_BYTES.get(pool.pools[0].device.type, _GROUP_BYTES["cuda"])
    numbers = pool.pools[0].numel() / (pool.n_blocks * pool.block_size)  # of a position and layer
    groups = []
    for T, run in groupby(segments, key=lambda segment: len(segment.tokens)):
        rows = list(run)
        if fast.follows(T, window):
            groups.append(rows)  # the kernel reads of a row what it has, and no padding
            continue
        if fast.kernel == "compiled" and window is None:
            groups += [[row] for row in rows]  # without a mask: by the same sums as everywhere
            continue
        lengths = [row.past if window is None else min(row.past, window) for row in rows]
        for start, stop in _cut(lengths, group_bytes / (numbers * pool.dtype.itemsize)):
            groups.append(rows[start:stop])
    return groups


def _cut(lengths: Sequence[int], worth: float) -> Iterator[tuple[int, int]]:
    """Cut rows, the longest first, where padding all that follow to this group's longest would cost more than a group.

    Args:
        worth: positions that are gathered and attended to in the time that a group more takes.
    """
    start = 0
    for i, length in enumerate(lengths):
        spared = lengths[start] - length
        if lengths[start] > _LONGER * length and spared * (len(lengths) - i) > worth:
            yield start, i
            start = i
    yield start, len(lengths)
