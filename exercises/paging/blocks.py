"""Paging: a cache in blocks of equal size, so that no request reserves memory for an answer it may never write.

Bookkeeping only: which blocks are free, who holds which, where a position lies. There are no tensors here, and none
are needed to test it; `paged_cache` keeps the numbers. The idea is that of virtual memory in an operating system:
blocks are its pages, a block table its page table, and blocks can be shared until someone writes (copy on write).

Source: Kwon 2023 ("Efficient memory management for large language model serving with PagedAttention", section 4).
"""

from collections.abc import Sequence

from .._require import require_count

from course import NotYetWritten


class OutOfBlocks(Exception):
    """More blocks are needed than are free. Nothing has been changed; someone has to give blocks back first."""


class BlockAllocator:
    """The free blocks of a pool, and how many hold each of the others.

    Args:
        n_blocks: blocks of the pool, numbered from 0.

    Raises:
        ValueError: n_blocks below 1.
    """

    def __init__(self, n_blocks: int) -> None:
        require_count(1, n_blocks=n_blocks)
        self.n_blocks = n_blocks
        # A stack: the block freed last is taken first, since it is the likeliest to be in the processor's cache still.
        self._free = list(range(n_blocks - 1, -1, -1))
        self._references = [0] * n_blocks

    @property
    def n_free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def n_used(self) -> int:
        """Blocks that somebody holds, each counted once."""
        return self.n_blocks - len(self._free)

    def references(self, block: int) -> int:
        """Return how many hold the block; 0 for a free one."""
        return self._references[self._known(block)]

    def allocate(self) -> int:
        """Return the free block that lies on top of the stack, the one freed last; from now on it has one holder.

        Raises:
            OutOfBlocks: none is free.
        """
        raise NotYetWritten(
            "exercise 6.4 BlockAllocator is not written yet: read "
            "notebooks/week06_batching_paging/week06_2_paging.ipynb, write it in exercises/paging/blocks.py, then "
            "run: NANOLM_IMPL=exercises python -m pytest tests/paging/test_blocks.py --exercise BlockAllocator"
        )

    def share(self, block: int) -> None:
        """Count one more holder of a block that has some already.

        Raises:
            ValueError: the block is free, so there is nothing in it to share, or does not exist.
        """
        raise NotYetWritten(
            "exercise 6.4 BlockAllocator is not written yet: read "
            "notebooks/week06_batching_paging/week06_2_paging.ipynb, write it in exercises/paging/blocks.py, then "
            "run: NANOLM_IMPL=exercises python -m pytest tests/paging/test_blocks.py --exercise BlockAllocator"
        )

    def free(self, block: int) -> None:
        """Count one holder less; a block without holders can be allocated again.

        Raises:
            ValueError: the block is free already, or does not exist.
        """
        raise NotYetWritten(
            "exercise 6.4 BlockAllocator is not written yet: read "
            "notebooks/week06_batching_paging/week06_2_paging.ipynb, write it in exercises/paging/blocks.py, then "
            "run: NANOLM_IMPL=exercises python -m pytest tests/paging/test_blocks.py --exercise BlockAllocator"
        )

    def _known(self, block: int) -> int:
        if not 0 <= block < self.n_blocks:
            raise ValueError(f"block is {block}; this pool has blocks 0 to {self.n_blocks - 1}")
        return block


class BlockTable:
    """The blocks of one sequence in order: position p lies in block p // block_size of it, at place p % block_size.

    Attributes:
        blocks: ids of the blocks held, each with one reference of this table's.
        length: positions reserved so far; the last block may be partly empty.
    """

    def __init__(self, allocator: BlockAllocator, block_size: int) -> None:
        require_count(1, block_size=block_size)
        self.allocator, self.block_size = allocator, block_size
        self.blocks: list[int] = []
        self.length = 0

    def blocks_needed(self, n: int) -> int:
        """Return how many free blocks `append(n)` takes: new ones, and one for a copy where the last one is shared."""
        return blocks_for(self.length + n, self.block_size) - len(self.blocks) + self._must_copy(n)

    def append(self, n: int) -> list[tuple[int, int]]:
        """Reserve n more positions; return the copies (from block, to block) that have to be made before writing there.

        A new block is allocated when a position has to go into it, never earlier. If the first new position falls into
        a block that others hold too, this table gets a block of its own in its place (copy on write): the content has
        to be copied, and the others keep the old one.

        Raises:
            ValueError: n is negative.
            OutOfBlocks: not enough blocks are free; the table is as before.
        """
        raise NotYetWritten(
            "exercise 6.5 BlockTable is not written yet: read "
            "notebooks/week06_batching_paging/week06_2_paging.ipynb, write it in exercises/paging/blocks.py, then "
            "run: NANOLM_IMPL=exercises python -m pytest tests/paging/test_blocks.py --exercise BlockTable"
        )

    def slot_mapping(self, start: int, stop: int) -> list[int]:
        """Return where in the pool the positions start … stop - 1 lie: the numbers of their places, block after block.

        Place s, which vLLM calls a slot, is in block s // block_size, the one of number s % block_size there.

        Raises:
            ValueError: positions that are not reserved, or stop before start; the message calls them positions.
        """
        raise NotYetWritten(
            "exercise 6.5 BlockTable is not written yet: read "
            "notebooks/week06_batching_paging/week06_2_paging.ipynb, write it in exercises/paging/blocks.py, then "
            "run: NANOLM_IMPL=exercises python -m pytest tests/paging/test_blocks.py --exercise BlockTable"
        )

    def fork(self) -> "BlockTable":
        """Return a second table over the same blocks, each with one more holder; nothing is copied."""
        raise NotYetWritten(
            "exercise 6.5 BlockTable is not written yet: read "
            "notebooks/week06_batching_paging/week06_2_paging.ipynb, write it in exercises/paging/blocks.py, then "
            "run: NANOLM_IMPL=exercises python -m pytest tests/paging/test_blocks.py --exercise BlockTable"
        )

    def adopt(self, blocks: Sequence[int]) -> None:
        """Begin with full blocks that the caller holds; their references pass to this table.

        Raises:
            ValueError: the table is not empty.
        """
        if self.blocks:
            raise ValueError(f"blocks of a prefix come first, and this table has {self.length} positions already")
        self.blocks, self.length = list(blocks), len(blocks) * self.block_size

    def replace(self, blocks: Sequence[int], start: int = 0) -> None:
        """Hold these blocks in place of those from `start` on, of the same content; equal numbers stay as they are."""
        for i, block in enumerate(blocks, start):
            if block != self.blocks[i]:
                self.allocator.share(block)
                self.allocator.free(self.blocks[i])
                self.blocks[i] = block

    def truncate(self, length: int) -> None:
        """Keep the first `length` positions and give back the blocks that none of them needs.

        Raises:
            ValueError: length is negative or beyond what is reserved.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length is {length}; 0 to {self.length}, the positions reserved, can stay")
        keep = blocks_for(length, self.block_size)
        while len(self.blocks) > keep:
            self.allocator.free(self.blocks.pop())
        self.length = length

    def release(self) -> None:
        """Give everything back."""
        self.truncate(0)

    def _must_copy(self, n: int) -> bool:
        """Whether the first of n new positions falls into a block that others hold too."""
        return n > 0 and self.length % self.block_size > 0 and self.allocator.references(self.blocks[-1]) > 1


def blocks_for(n_positions: int, block_size: int) -> int:
    """Return how many blocks hold n positions."""
    return -(-n_positions // block_size)
