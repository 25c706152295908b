"""Stand-ins for the owners of memory, which say what was done to them, and a prefix cache that searches all it has."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

COMING = -1  # the block of what a match is bringing back, not known yet


class OutOfBlocks(Exception):
    """No block is free."""


class FakeBlocks:
    """Device blocks with reference counts; `contents` says what a block's keys and values would be computed from."""

    def __init__(self, n_blocks: int) -> None:
        self.counts = [0] * n_blocks
        self.contents: list[tuple[int, ...] | None] = [None] * n_blocks
        self.n_asked = 0

    @property
    def n_free(self) -> int:
        return self.counts.count(0)

    def allocate(self) -> int:
        if not self.n_free:
            raise OutOfBlocks("allocate was called and no block is free: look at n_free first")
        block = self.counts.index(0)
        self.counts[block], self.contents[block] = 1, None
        return block

    def share(self, block: int | None) -> None:
        assert block is not None, (
            "share(None): this node's block is not on the device, or not any more. Where it could not be brought back "
            "the match ends; and so that it is not evicted to make room for the next, share each as soon as it is found"
        )
        assert self.counts[block] > 0, f"block {block} was shared, but nobody holds it: it is free"
        self.counts[block] += 1

    def free(self, block: int) -> None:
        assert self.counts[block] > 0, f"block {block} was freed once too often"
        self.counts[block] -= 1

    def references(self, block: int) -> int:
        self.n_asked += 1
        return self.counts[block]

    def run(self, tokens: Sequence[int], block_size: int) -> list[int]:
        """Allocate blocks for all of the tokens and fill the whole ones, as prefill would."""
        return self.complete(tokens, block_size, [])

    def complete(self, tokens: Sequence[int], block_size: int, blocks: Iterable[int]) -> list[int]:
        """The same where the first blocks are there already."""
        blocks = list(blocks)
        for start in range(len(blocks) * block_size, len(tokens), block_size):
            blocks.append(self.allocate())
            self.contents[blocks[-1]] = tuple(tokens[: start + block_size])
        return blocks

    def free_all(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self.free(block)


class FakeHost:
    """CPU memory for the contents of a few blocks."""

    def __init__(self, blocks: FakeBlocks, capacity: int) -> None:
        self.blocks, self.capacity = blocks, capacity
        self.copies: dict[int, tuple[int, ...] | None] = {}
        self.n_saved = 0

    def save(self, block: int) -> int | None:
        assert self.blocks.counts[block] > 0, f"block {block} was saved after it was freed"
        if len(self.copies) >= self.capacity:
            return None
        self.n_saved += 1
        self.copies[self.n_saved] = self.blocks.contents[block]
        return self.n_saved

    def load(self, handle: int, block: int) -> None:
        assert self.blocks.counts[block] > 0, f"contents were loaded into block {block}, which nobody holds"
        self.blocks.contents[block] = self.copies[handle]

    def drop(self, handle: int) -> None:
        del self.copies[handle]


@dataclass
class Entry:
    """Where a prefix's last block is (None: in the host store) and when it was last used."""

    block: int | None
    used: int


class NaiveCache:
    """A prefix cache as one dictionary from whole prefixes to entries; every question looks through all of it."""

    def __init__(self, block_size: int, host_capacity: int | None) -> None:
        self.block_size, self.host_capacity = block_size, host_capacity
        self.entries: dict[tuple[int, ...], Entry] = {}
        self.now = 0

    def prefixes(self, tokens: Sequence[int]) -> list[tuple[int, ...]]:
        size = self.block_size
        return [tuple(tokens[: (i + 1) * size]) for i in range(len(tokens) // size)]

    def peek(self, tokens: Sequence[int]) -> int:
        return max((len(p) for p in self.prefixes(tokens) if p in self.entries), default=0)

    def match(self, tokens: Sequence[int], limit: int, n_free: int, held: Counter[int]) -> list[tuple[int, ...]]:
        """The prefixes that a match must find: on the device, or brought back while a block is free or can be evicted.

        Those brought back are in block COMING until `use` says where.
        """
        found = []
        for prefix in self.prefixes(tokens[:limit]):
            entry = self.entries.get(prefix)
            if entry is None:
                break
            if entry.block is None:
                n_free = n_free or self.evict(1, held, [*found, prefix])
                if not n_free:
                    break
                n_free -= 1
                entry.block = COMING
            found.append(prefix)
        return found

    def use(self, prefixes: Sequence[tuple[int, ...]], blocks: Sequence[int]) -> None:
        """Every prefix is on the device and used now; where it was not there, it is in the block given."""
        self.now += 1
        for prefix, block in zip(prefixes, blocks, strict=True):
            entry = self.entries.setdefault(prefix, Entry(None, 0))
            entry.block = block if entry.block in (None, COMING) else entry.block
            entry.used = self.now

    def evict(self, n: int, held: Counter[int], kept: Sequence[tuple[int, ...]] = ()) -> int:
        for n_freed in range(n):
            leaves = [p for p, e in self.entries.items() if e.block is not None and not self._behind(p, device=True)]
            leaves = [p for p in leaves if not held[self.entries[p].block] and p not in kept]
            if not leaves:
                return n_freed
            self._give_up(min(leaves, key=lambda p: self.entries[p].used), kept)
        return n

    def n_evictable(self, held: Counter[int]) -> int:
        device = [p for p, e in self.entries.items() if e.block is not None]
        return sum(not any(held[self.entries[q].block] for q in [p, *self._behind(p, device=True)]) for p in device)

    def blocks(self) -> list[int]:
        return [entry.block for entry in self.entries.values() if entry.block is not None]

    def _behind(self, prefix: tuple[int, ...], device: bool) -> list[tuple[int, ...]]:
        longer = [p for p in self.entries if len(p) > len(prefix) and p[: len(prefix)] == prefix]
        return [p for p in longer if self.entries[p].block is not None] if device else longer

    def _give_up(self, prefix: tuple[int, ...], kept: Sequence[tuple[int, ...]]) -> None:
        on_host = [p for p, e in self.entries.items() if e.block is None]
        if self.host_capacity and len(on_host) == self.host_capacity:
            ends = [p for p in on_host if not self._behind(p, device=False) and p not in kept]
            if not ends:
                del self.entries[prefix]
                return
            del self.entries[min(ends, key=lambda p: self.entries[p].used)]
        if self.host_capacity:
            self.entries[prefix].block = None
        else:
            del self.entries[prefix]
