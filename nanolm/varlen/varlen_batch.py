"""One pass over the tokens of many requests, one behind the other: whole prompts, parts of them, single tokens.

A batch in rows would pad every row to the longest: one prompt of 200 tokens beside 31 requests that decode one token
each would run 6,400 positions for 231. Here the 231 tokens are one row of the model, which is all that the linear
layers want. Only attention has to know whose token is whose, and in this engine the cache attends: to the model a
VarlenBatch is a cache of one row, which writes each token's keys and values into its slot and attends for the requests
with equally many tokens together.

(Yu 2022, "Orca", section 4.2, calls this selective batching.)
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..kernels.backend import uses_triton
from ..kernels.cpu_attention import follows_tables
from ..paging.paged_cache import PagedKVCache, Scratch
from ..paging.table_rows import TableRows
from ..window.block_tables import GroupedTables, tables_of
from .paged_rows import Kernel, PagedRows, Segment, Shortcuts, groups_of

_FEW_BLOCKS = 512  # are made into a tensor anew in less time than it takes to see which of them are new


class VarlenBatch:
    """The tensors of a pass over many requests, made once and used by every layer; to the model, a cache of one row.

    Args:
        pool: where the blocks are; for `GroupedTables` one with the layers of a group (`grouped_paged_cache`).
        segments: at least one. They are sorted so that those with equally many tokens are neighbours.
        one_by_one: every request's attention by itself, gathered from its blocks: the plain way.
        tables: keeps block tables as a tensor from pass to pass; None, the plain way, makes one of all of them anew.

    Attributes:
        tokens: all tokens to run, (1, n).
        scored: the positions of that row behind which logits are wanted, (1, scored), in the order of the segments.
        offset: each token's own position in its text, (1, n), by which it is rotated.
        capacity: positions of the longest request.
    """

    batch_size, gives_rows = 1, False

    def __init__(
        self,
        pool: PagedKVCache,
        segments: Sequence[Segment],
        one_by_one: bool = False,
        tables: TableRows | None = None,
    ) -> None:
        self.pool = pool
        order = sorted(range(len(segments)), key=lambda i: (len(segments[i].tokens), -segments[i].past))
        ordered = [segments[i] for i in order]
        fast = None if one_by_one else self._shortcuts(ordered, tables)
        self._places, parts = _by_group(ordered, len(pool.pools))
        self._rows = [
            [PagedRows(pool, group, fast, window) for group in groups_of(pool, part, fast, window)]
            for window, part in parts
        ]
        self._sizes = [[rows.batch_size * rows.T for rows in part] for part in self._rows]
        self.capacity = max(segment.past + len(segment.tokens) for segment in segments)
        tokens, positions, ends = [], [], {}
        for i in order:
            tokens += segments[i].tokens
            positions += range(segments[i].past, segments[i].past + len(segments[i].tokens))
            ends[i] = len(tokens)
        scored = [row for i, segment in enumerate(segments) for row in range(ends[i] - segment.n_scored, ends[i])]
        slots = [slot for part in self._rows for rows in part for slot in rows.slots]
        # One transfer for all of them: on a GPU each costs more than the numbers in it.
        numbers = torch.tensor([[*tokens, *positions, *scored, *slots]]).to(pool.pools[0].device)
        n = len(tokens)
        self.tokens, self.offset, self.scored, slots = numbers.split([n, n, len(scored), len(slots)], dim=1)
        self._slots = slots[0].split(n)

    def _shortcuts(self, segments: Sequence[Segment], tables: TableRows | None) -> Shortcuts:
        block_tables = [table for segment in segments for table in tables_of(segment.table)]
        if sum(len(table.blocks) for table in block_tables) < _FEW_BLOCKS:
            tables = None
        if tables is not None:
            tables.update(block_tables)
        return Shortcuts(tables, Scratch(), self._kernel(segments))  # asked once, not in every layer

    def _kernel(self, segments: Sequence[Segment]) -> Kernel | None:
        pool = self.pool
        # Triton's takes one query a row, and numbers, not codes.
        by_triton = pool.is_plain and any(len(segment.tokens) == 1 for segment in segments)
        if by_triton and uses_triton(None, pool=pool.pools[0]):
            return "triton"
        by_library = pool.is_read_by_library and follows_tables(pool.dtype, pool.pools[0], pool.head_dim)
        return "compiled" if by_library else None

    def attend(
        self,
        layer: int,
        q: Float[Tensor, "1 N n H"],
        k: Float[Tensor, "1 K n H"],
        v: Float[Tensor, "1 K n U"],
        scale: float | None = None,
    ) -> Float[Tensor, "1 N n U"]:
        """Store the pass's keys and values of one layer; return what each token sees of its own request."""
        group, layer = self._places[layer]
        rows, sizes = self._rows[group], self._sizes[group]
        self.pool.write(layer, k[0], v[0], self._slots[group])
        if len(rows) == 1:
            return self._attend(rows[0], layer, q, k, v, scale)
        parts = zip(rows, *(x.split(sizes, dim=2) for x in (q, k, v)), strict=True)
        return torch.cat([self._attend(each, layer, q, k, v, scale) for each, q, k, v in parts], dim=2)

    def _attend(self, rows: PagedRows, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        return rows.in_line(rows.attend(layer, rows.in_rows(q), rows.in_rows(k), rows.in_rows(v), scale))


def _by_group(
    segments: Sequence[Segment], n_layers: int
) -> tuple[list[tuple[int, int]], list[tuple[int | None, list[Segment]]]]:
    """Where each layer's keys and values lie, (group, layer of the pool), and each group's window and segments.

    One group of all layers, unless the requests have block tables for several.
    """
    table = segments[0].table
    if not isinstance(table, GroupedTables):
        return [(0, layer) for layer in range(n_layers)], [(None, list(segments))]
    parts = [[replace(each, table=own) for own in tables_of(each.table)] for each in segments]
    return table.groups.places, list(zip(table.groups.windows, map(list, zip(*parts, strict=True)), strict=True))
