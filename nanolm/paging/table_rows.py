"""Block tables as a tensor that lives from pass to pass, so that a pass writes down only what is new of them.

A request of 8,192 positions holds 512 blocks of 16, and a pass that decodes adds one to every sixteenth request. Lists
made into a tensor anew cost a pass 512 numbers a request; here it costs a comparison of two lists, which is quick:
entries that stayed are the very same objects.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from .blocks import BlockTable


class TableRows:
    """Rows of one tensor, each of which follows a block table, whatever happens to that between two passes.

    A row belongs to the table that was last written there. Who comes new takes the row of whoever has been away
    longest, so there are no more rows than tables in the largest pass, and nobody has to say that a request is over.
    What a row holds is compared with its table in every pass; nothing is believed because of whose it was.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._blocks = torch.zeros(0, 0, dtype=torch.int64, device=device)
        self._known: list[list[int]] = []  # what stands in each row
        self._row_of: dict[int, int] = {}  # by the table's id; the one asked for longest ago comes first

    @property
    def n_rows(self) -> int:
        """Rows there are: as many as tables in the largest pass so far."""
        return len(self._known)

    def update(self, tables: Sequence[BlockTable]) -> None:
        """Write down what is new in the tables of a pass, all of them at once; each has its row afterwards."""
        self._give_rows(tables)
        rows: list[int] = []
        columns: list[int] = []
        for table in tables:
            row = self._row_of[id(table)]
            if table.blocks == self._known[row]:
                continue
            changed = _note(self._known[row], table.blocks)
            rows += [row] * len(changed)
            columns += changed
        if rows:
            self._reserve(len(self._known), max(columns) + 1)
            blocks = [self._known[row][column] for row, column in zip(rows, columns, strict=True)]
            at_row, at_column, new = torch.tensor([rows, columns, blocks]).to(self._blocks.device)
            self._blocks[at_row, at_column] = new

    def select(self, tables: Sequence[BlockTable], firsts: Sequence[int], n: int) -> Int[Tensor, "B n"]:
        """Return n blocks of each table from its block number `firsts[b]` on; behind its last one that one again.

        Filled up with a block of its own: what another's holds, a NaN perhaps, would pass every mask.

        Args:
            tables: of those given to the last `update`.
        """
        rows, lasts = [self._row_of[id(table)] for table in tables], [len(table.blocks) - 1 for table in tables]
        where = torch.tensor([*rows, *firsts, *lasts]).to(self._blocks.device)
        row, first, last = where.view(3, -1, 1).unbind()  # (B, 1) each
        columns = (first + torch.arange(n, device=row.device)).clamp_(max=last)  # (B, n)
        # By one number an entry, into the tensor as one line: three times as fast as by row and column.
        at = columns.add_(row * self._blocks.shape[1])
        return self._blocks.view(-1).index_select(0, at.view(-1)).view(-1, n)

    def _give_rows(self, tables: Sequence[BlockTable]) -> None:
        own = {id(table): self._row_of.pop(id(table)) for table in tables if id(table) in self._row_of}
        for table in tables:  # who is in _row_of still is not in this pass
            if id(table) not in own:
                own[id(table)] = self._row_of.pop(next(iter(self._row_of))) if self._row_of else self._new_row()
        self._row_of |= own

    def _new_row(self) -> int:
        self._known.append([])
        return len(self._known) - 1

    def _reserve(self, n_rows: int, n_columns: int) -> None:
        """Have room for as many rows and columns; grown by doubling, so that growing costs a pass little."""
        rows, columns = self._blocks.shape
        if n_rows > rows or n_columns > columns:
            shape = (2 * n_rows if n_rows > rows else rows, 2 * n_columns if n_columns > columns else columns)
            larger = self._blocks.new_zeros(shape)
            larger[:rows, :columns] = self._blocks
            self._blocks = larger


def _note(known: list[int], blocks: Sequence[int]) -> Sequence[int]:
    """Make `known` equal to the blocks; return the places of those that were others before."""
    n = len(known)
    if blocks[:n] == known:
        changed: Sequence[int] = range(n, len(blocks))
    else:
        changed = [i for i, block in enumerate(blocks) if i >= n or block != known[i]]
    if changed or len(blocks) < n:
        known[:] = blocks
    return changed
