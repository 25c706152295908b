"""Block tables of a text whose layers have windows: a table for each group of layers, with holes behind the windows.

Bookkeeping only, as in `paging.blocks`, whose allocator and table these are built on; `layer_groups` says why a text
has several tables.
"""

from collections.abc import Sequence
from itertools import chain

from .._require import require_count
from ..paging.blocks import BlockAllocator, BlockTable, OutOfBlocks
from .layer_groups import LayerGroups, blocks_for_request

HOLE = -1  # in the place of a block that has been given back


class WindowedBlockTable(BlockTable):
    """A block table that gives back what lies behind a window.

    Attributes:
        window: positions that a query sees, its own among them.
        blocks: as BlockTable's, so that position p still lies in blocks[p // block_size]; the first n_dropped are HOLE.
        n_dropped: blocks that have been given back.
    """

    def __init__(self, allocator: BlockAllocator, block_size: int, window: int) -> None:
        require_count(1, window=window)
        super().__init__(allocator, block_size)
        self.window, self.n_dropped = window, 0

    def drop_behind(self, length: int) -> None:
        """Give back the blocks of which no query at position `length` or later sees a position.

        Such a query sees length - window + 1 and what follows.

        Raises:
            ValueError: length is negative or beyond what is reserved.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length is {length}; 0 to {self.length}, the positions reserved, can be looked back from")
        n = max(self.n_dropped, self._first_seen(length) // self.block_size)
        for i in range(self.n_dropped, n):
            self.allocator.free(self.blocks[i])
            self.blocks[i] = HOLE
        self.n_dropped = n

    def slot_mapping(self, start: int, stop: int) -> list[int]:
        """As BlockTable's.

        Raises:
            ValueError: positions that are not reserved, or whose blocks have been given back.
        """
        slots = super().slot_mapping(start, stop)
        if start < stop and start < self.n_dropped * self.block_size:
            raise ValueError(f"positions {start} to {stop} were asked for; those before {self._first_kept} are dropped")
        return slots

    def fork(self) -> "WindowedBlockTable":
        """As BlockTable's: a second table over the blocks that are left."""
        twin = WindowedBlockTable(self.allocator, self.block_size, self.window)
        for block in self.blocks[self.n_dropped :]:
            self.allocator.share(block)
        twin.blocks, twin.length, twin.n_dropped = list(self.blocks), self.length, self.n_dropped
        return twin

    def truncate(self, length: int) -> None:
        """As BlockTable's; 0 always works.

        Raises:
            ValueError: length is negative, beyond what is reserved, or one whose next query would see dropped blocks.
        """
        self.require_kept(length)
        if length == 0:
            self.blocks, self.n_dropped = self.blocks[self.n_dropped :], 0
        super().truncate(length)

    def require_kept(self, length: int) -> None:
        """Raise a ValueError where the query at position `length` sees positions whose blocks have been given back."""
        if length > 0 and self._first_seen(length) < self._first_kept:
            raise ValueError(
                f"length is {length}, whose query sees back to position {self._first_seen(length)}, and the blocks "
                f"before position {self._first_kept} have been given back: compute the text again"
            )

    @property
    def _first_kept(self) -> int:
        return self.n_dropped * self.block_size

    def _first_seen(self, length: int) -> int:
        return max(0, length - self.window + 1)


class GroupedTables(BlockTable):
    """The block tables of one text, one for each group of layers; to a scheduler, one table that needs more blocks.

    What a prefix cache does with a table, `adopt` and `replace`, it refuses: there is none for layers that differ.

    Args:
        chunk: most positions that are reserved at a time, None for any number.

    Attributes:
        groups: the layers' groups.
        tables: those of the groups, in order; where a position lies, they know.
    """

    def __init__(
        self, allocator: BlockAllocator, block_size: int, groups: LayerGroups, chunk: int | None = None
    ) -> None:
        self.allocator, self.block_size, self.groups, self.chunk = allocator, block_size, groups, chunk
        self.tables = [
            BlockTable(allocator, block_size) if window is None else WindowedBlockTable(allocator, block_size, window)
            for window in groups.windows
        ]

    @property
    def blocks(self) -> list[int]:
        """All blocks held, group after group, no holes: what is to be cleared, not where a position lies."""
        return [block for block in chain.from_iterable(table.blocks for table in self.tables) if block != HOLE]

    @property
    def length(self) -> int:
        """Positions reserved so far, in all groups."""
        return self.tables[0].length

    def blocks_needed(self, n: int) -> int:
        """Return how many free blocks n more positions take, over all groups.

        More than a chunk are reserved a chunk at a time, and what lies behind a window is given back between two.
        """
        needed = sum(table.blocks_needed(n) for table in self.tables)
        if self.chunk is None or n <= self.chunk:
            return needed
        most = blocks_for_request(self.length + n, self.groups.windows, self.block_size, self.chunk)
        return min(needed, max(0, most - len(self.blocks)))

    def append(self, n: int) -> list[tuple[int, int]]:
        """Reserve n more positions in all groups; return the copies to make before writing there, as BlockTable.append.

        Raises:
            ValueError: n is negative.
            OutOfBlocks: not enough blocks are free for all groups; the tables are as before.
        """
        require_count(0, n=n)
        needed = sum(table.blocks_needed(n) for table in self.tables)
        if needed > self.allocator.n_free:
            raise OutOfBlocks(f"{n} more positions need {needed} blocks and {self.allocator.n_free} are free")
        return [copy for table in self.tables for copy in table.append(n)]

    def drop_behind(self, length: int) -> None:
        """Give back, in groups with a window, the blocks of which no query at position `length` or later sees any.

        Called with the number of positions that count as computed, after each pass: no later truncation may go back
        further.

        Raises:
            ValueError: length is negative or beyond what is reserved.
        """
        for table in self.tables:
            if isinstance(table, WindowedBlockTable):
                table.drop_behind(length)

    def fork(self) -> "GroupedTables":
        """Return second tables over the same blocks, each with one more holder; nothing is copied."""
        twin = GroupedTables(self.allocator, self.block_size, self.groups, self.chunk)
        twin.tables = [table.fork() for table in self.tables]
        return twin

    def truncate(self, length: int) -> None:
        """Keep the first `length` positions in all groups, or, after an error, what there was.

        Raises:
            ValueError: length is negative, beyond what is reserved, or one whose next query would see dropped blocks.
        """
        for table in self.tables:
            if isinstance(table, WindowedBlockTable):
                table.require_kept(length)
        for table in self.tables:
            table.truncate(length)

    def slot_mapping(self, start: int, stop: int) -> list[int]:
        """Refused: each group has slots of its own."""
        raise ValueError("positions have slots in each group: ask one of `tables`")

    def adopt(self, blocks: Sequence[int]) -> None:
        """Refused: a prefix cache knows blocks of all layers."""
        raise ValueError(_NO_PREFIX)

    def replace(self, blocks: Sequence[int], start: int = 0) -> None:
        """Refused: a prefix cache knows blocks of all layers."""
        raise ValueError(_NO_PREFIX)


def tables_of(table: BlockTable) -> list[BlockTable]:
    """Return a text's block tables, one for each group of layers: itself, where all layers share one."""
    return table.tables if isinstance(table, GroupedTables) else [table]


_NO_PREFIX = "blocks of a prefix are for all layers, and here each group of layers has its own: switch the cache off"
