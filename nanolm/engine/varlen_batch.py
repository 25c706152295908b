"""One pass over the tokens of many requests, one behind the other: whole prompts, parts of them, single tokens.

A batch in rows would pad every row to the longest: one prompt of 200 tokens beside 31 requests that decode one token
each would run 6,400 positions for 231. Here the 231 tokens are one row of the model, which is all that the linear
layers want. Only attention has to know whose token is whose, and in this engine the cache attends: to the model a
VarlenBatch is a cache of one row, which writes each token's keys and values into its slot and attends for the requests
with equally many tokens together.

(Yu 2022, "Orca", section 4.2, calls this selective batching.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from ..attention.paged import paged_attention
from ..cache.contiguous import KVCache
from ..kernels.backend import uses_triton
from ..paging.blocks import BlockTable
from ..paging.paged_cache import PagedKVCache
from ..paging.table_rows import TableRows

# Ranges of a text that a GPU works on side by side; one token of few requests would leave it idle. Always as many,
# though few texts would like more: the order in which a text's sums are taken must not depend on who else is served.
_N_SPLITS = 4


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


class PagedRows(KVCache):
    """Requests with equally many new tokens as the rows of a cache whose keys and values lie in blocks.

    It lives for one pass. `attend` is KVCache's own, over an `update` and a `mask` of this class.

    Args:
        pool: where the blocks are.
        segments: of T tokens each.
        in_place: whether a kernel may follow the block tables while it attends; False gathers the blocks first.
        tables: keeps the block tables from pass to pass, and has been told of this one; None makes tensors of them.
    """

    def __init__(
        self, pool: PagedKVCache, segments: Sequence[Segment], in_place: bool = True, tables: TableRows | None = None
    ) -> None:
        self.pool, self.batch_size, self.T = pool, len(segments), len(segments[0].tokens)
        pasts = [segment.past for segment in segments]
        self.capacity = max(pasts) + self.T  # of the longest row, this pass included
        self.slots = [slot for each in segments for slot in each.table.slot_mapping(each.past, each.past + self.T)]
        device, n_blocks = pool.pools[0].device, -(-self.capacity // pool.block_size)
        if tables is None:
            # Filled up with a block of the row's own: what another's holds, a NaN perhaps, would pass the mask.
            held = [segment.table.blocks[:n_blocks] for segment in segments]
            self.tables = torch.tensor([[*row, *row[-1:] * (n_blocks - len(row))] for row in held]).to(device)
        else:
            self.tables = tables.select([segment.table for segment in segments], [0] * len(segments), n_blocks)
        self.lengths = (torch.tensor(pasts) + self.T).to(device)
        # Asked once, not in every layer. The kernel takes one query a row, and numbers, not codes.
        one_each = in_place and self.T == 1 and pool.is_plain
        self._by_kernel = one_each and uses_triton(None, pool=pool.pools[0], tables=self.tables)
        self._mask = None
        if min(pasts) < max(pasts):  # else the rows see alike, and `attend` knows what a causal pass sees
            last_seen = torch.tensor(pasts)[:, None] + torch.arange(self.T)  # (B, T)
            hidden = torch.arange(self.capacity) > last_seen[..., None]  # (B, T, S)
            mask = torch.zeros(hidden.shape, dtype=pool.dtype).masked_fill_(hidden, float("-inf"))
            self._mask = mask.unsqueeze(1).to(device)

    def update(
        self, layer: int, k: Float[Tensor, "B K T H"], v: Float[Tensor, "B K T U"]
    ) -> tuple[Float[Tensor, "B K S H"], Float[Tensor, "B K S U"]]:
        """Return each row's blocks in order, cut behind the longest row; the batch has written k and v there before."""
        keys, values = self.pool.read(layer, self.tables)
        return keys[:, :, : self.capacity], values[:, :, : self.capacity]

    def attend(
        self,
        layer: int,
        q: Float[Tensor, "B N T H"],
        k: Float[Tensor, "B K T H"],
        v: Float[Tensor, "B K T U"],
        scale: float | None = None,
    ) -> Float[Tensor, "B N T U"]:
        """As KVCache.attend; one token a row on a GPU by the kernel that follows the tables: nothing is gathered."""
        if self._by_kernel:
            keys, values = self.pool.pools[layer]
            return paged_attention(q, keys, values, self.tables, self.lengths, _N_SPLITS, scale)
        return super().attend(layer, q, k, v, scale)

    def mask(self, T: int) -> Float[Tensor, "B 1 T S"] | None:
        """Return what to add to the scores of attention, so that no row sees behind its end; None: equal lengths."""
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


class VarlenBatch:
    """The tensors of a pass over many requests, made once and used by every layer; to the model, a cache of one row.

    Args:
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
        if tables is not None:
            tables.update([segment.table for segment in segments])
        order = sorted(range(len(segments)), key=lambda i: len(segments[i].tokens))
        groups = [list(group) for _, group in groupby(order, key=lambda i: len(segments[i].tokens))]
        alike = [[i] for i in order] if one_by_one else groups
        self._rows = [PagedRows(pool, [segments[i] for i in group], not one_by_one, tables) for group in alike]
        self._sizes = [rows.batch_size * rows.T for rows in self._rows]
        self.capacity = max(rows.capacity for rows in self._rows)
        tokens, positions, ends = [], [], {}
        for i in order:
            tokens += segments[i].tokens
            positions += range(segments[i].past, segments[i].past + len(segments[i].tokens))
            ends[i] = len(tokens)
        slots = [slot for rows in self._rows for slot in rows.slots]
        scored = [row for i, segment in enumerate(segments) for row in range(ends[i] - segment.n_scored, ends[i])]
        # One transfer for the four of them: on a GPU each costs more than the numbers in it.
        numbers = torch.tensor([[*tokens, *positions, *slots, *scored]]).to(pool.pools[0].device)
        n = len(tokens)
        self.tokens, self.offset, slots, self.scored = numbers.split([n, n, n, len(scored)], dim=1)
        self._slots = slots[0]

    def attend(
        self,
        layer: int,
        q: Float[Tensor, "1 N n H"],
        k: Float[Tensor, "1 K n H"],
        v: Float[Tensor, "1 K n U"],
        scale: float | None = None,
    ) -> Float[Tensor, "1 N n U"]:
        """Store the pass's keys and values of one layer; return what each token sees of its own request."""
        self.pool.write(layer, k[0], v[0], self._slots)
        if len(self._rows) == 1:
            return self._attend(self._rows[0], layer, q, k, v, scale)
        parts = zip(self._rows, *(x.split(self._sizes, dim=2) for x in (q, k, v)), strict=True)
        return torch.cat([self._attend(rows, layer, q, k, v, scale) for rows, q, k, v in parts], dim=2)

    def _attend(self, rows: PagedRows, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        return rows.in_line(rows.attend(layer, rows.in_rows(q), rows.in_rows(k), rows.in_rows(v), scale))
