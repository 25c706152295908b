"""What a radix cache is made of: nodes, their order of use, its counts, and what it asks of the owners of memory.

How prefixes are found, remembered and given up is told in radix_cache.py.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Blocks(Protocol):
    """What the tree asks of the allocator of device blocks."""

    @property
    def n_free(self) -> int:
        """Blocks that nobody holds."""
        ...

    def allocate(self) -> int:
        """Return a free block, with one reference; an error where there is none."""
        ...

    def share(self, block: int) -> None:
        """Count one more reference."""
        ...

    def free(self, block: int) -> None:
        """Count one reference less; at 0 the block is free."""
        ...

    def references(self, block: int) -> int:
        """Return how many hold the block."""
        ...


# What a device, torch or a disk raises when copying fails. Anything else is a mistake in a program and is passed on.
COPY_ERRORS = (RuntimeError, MemoryError, OSError)


class HostStore(Protocol):
    """A second home for the contents of blocks, in CPU memory.

    Where copying fails, with one of COPY_ERRORS, the store is as before.
    """

    def save(self, block: int) -> int | None:
        """Copy a device block's contents; return a handle to the copy, or None where the store is full."""
        ...

    def load(self, handle: int, block: int) -> None:
        """Copy the contents back into a device block; the copy stays until it is dropped."""
        ...

    def drop(self, handle: int) -> None:
        """Forget the copy."""
        ...


@dataclass
class PrefixStats:
    """Counts since the cache was made; a hit is a token that `match` found, on the device or brought back to it."""

    n_lookups: int = 0
    n_looked_up_tokens: int = 0
    n_hit_tokens: int = 0
    n_evicted_blocks: int = 0  # device blocks given up, off-loaded or not
    n_offloaded: int = 0
    n_loaded: int = 0
    n_failed_copies: int = 0  # to the host store or back: such a block is computed again

    @property
    def hit_rate(self) -> float:
        """Hit tokens as a share of those looked up; 0 before the first look-up."""
        return self.n_hit_tokens / self.n_looked_up_tokens if self.n_looked_up_tokens else 0.0

    def take_lookups(self, others: "PrefixStats", before: "PrefixStats") -> None:
        """Move here what `others` has counted of look-ups since it was as `before`."""
        for name in ("n_lookups", "n_looked_up_tokens", "n_hit_tokens"):
            setattr(self, name, getattr(self, name) + getattr(others, name) - getattr(before, name))
            setattr(others, name, getattr(before, name))


@dataclass(eq=False, slots=True)
class Node:
    """One block of tokens behind its parent's, and where its keys and values are: in `block` or under `handle`."""

    key: tuple[int, ...] = ()
    parent: "Node | None" = None
    last_used: int = 0
    block: int | None = None  # on the device
    handle: int | None = None  # in the host store
    n_children_on_device: int = 0
    children: dict[tuple[int, ...], "Node"] = field(default_factory=dict)

    @property
    def is_device_leaf(self) -> bool:
        """On the device, with nothing behind it there: it can go without leaving a gap."""
        return self.block is not None and not self.n_children_on_device

    @property
    def is_host_leaf(self) -> bool:
        """In the host store, with nothing behind it anywhere."""
        return self.handle is not None and not self.children


class _Used(Protocol):
    last_used: int


_Leaf = TypeVar("_Leaf", bound=_Used)


class LeastRecent(Generic[_Leaf]):
    """Leaves in the order of their last use, without a search: a heap that is put right when something is taken.

    A node waits in it once. It may be used again meanwhile, or be no leaf any more; both show when its turn comes.
    Last uses only grow, so whatever stands first under its true time is the least recent.
    """

    def __init__(self, is_leaf: Callable[[_Leaf], bool]) -> None:
        self._is_leaf, self._serial = is_leaf, itertools.count()
        self._heap: list[tuple[int, int, _Leaf]] = []
        self._waiting: set[_Leaf] = set()

    def add(self, node: _Leaf) -> None:
        """Let a node wait; nothing happens if it does already, or is no leaf."""
        if self._is_leaf(node) and node not in self._waiting:
            self._waiting.add(node)
            heapq.heappush(self._heap, (node.last_used, next(self._serial), node))

    def pop(self) -> _Leaf | None:
        """Take out the least recently used leaf and return it; None where there is none."""
        while self._heap:
            used, _, node = heapq.heappop(self._heap)
            self._waiting.remove(node)
            if not self._is_leaf(node):
                continue
            if used == node.last_used:
                return node
            self.add(node)
        return None


def whole_blocks(tokens: Sequence[int], block_size: int) -> Iterator[tuple[int, ...]]:
    """Yield the tokens of each block that is full, in order."""
    for end in range(block_size, len(tokens) + 1, block_size):
        yield tuple(tokens[end - block_size : end])
