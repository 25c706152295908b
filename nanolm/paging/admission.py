"""What a scheduler asks a prefix cache around an admission: would the prompt fit, and whose look-up is it.

Here too are only tokens, counts and block numbers. Nothing in this file takes part in finding or evicting.
"""

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Protocol

from .._require import require_count
from .radix_tree import Blocks, Node, PrefixStats, whole_blocks


@dataclass(frozen=True)
class PrefixFit:
    """What there is of a prompt's beginning, in whole blocks.

    Attributes:
        n_device: blocks on the device; `match` will find these for certain.
        n_evictable: those of them that eviction could free now. `match` pins them, so they are room for nobody.
        n_host: blocks behind them that only the host store has. Each needs a device block like any that is computed.
    """

    n_device: int
    n_evictable: int
    n_host: int


class _Tree(Protocol):
    """What the calls need of a prefix cache."""

    @property
    def root(self) -> Node: ...
    @property
    def blocks(self) -> Blocks: ...
    @property
    def block_size(self) -> int: ...
    @property
    def n_evictable(self) -> int: ...
    @property
    def statistics(self) -> PrefixStats: ...
    @property
    def resumed_statistics(self) -> PrefixStats: ...

    def insert(self, tokens: Sequence[int], blocks: Sequence[int]) -> list[int]: ...
    def _held(self) -> Container[Node]: ...
    def _remember_behind(
        self, tokens: Sequence[int], blocks: Sequence[int], n_known: int, n_blocks: int
    ) -> list[int]: ...


class AdmissionCalls:
    """`peek`, `fit`, `blocks_available`, `remember`, `counting_resumed` for a prefix cache; `_Tree`: what they need."""

    def peek(self: _Tree, tokens: Sequence[int]) -> int:
        """Return how many tokens are cached, on the device or the host; nothing is shared, moved or counted as used."""
        return self.block_size * sum(1 for _ in _path(self.root, tokens, self.block_size))

    def fit(self: _Tree, tokens: Sequence[int], limit: int | None = None) -> PrefixFit:
        """Return what `match` with the same arguments would meet; nothing is shared, moved or counted.

        A request of n blocks can be admitted exactly if n - fit.n_device <= blocks_available(fit): then `match`, and
        allocating what is missing, evicting where no block is free, cannot fail. Otherwise it must fail. Which blocks
        of the host store `match` still gets hold of makes no difference, since a block costs the same loaded or new.

        Args:
            limit: only the first so many tokens count.

        Raises:
            ValueError: limit not a whole number, 0 or more.
        """
        limit = len(tokens) if limit is None else limit
        require_count(0, limit=limit)
        held, path = self._held(), list(_path(self.root, tokens[:limit], self.block_size))
        on_device = [node for node in path if node.block is not None]
        n_evictable = sum(node not in held for node in on_device)
        return PrefixFit(len(on_device), n_evictable, len(path) - len(on_device))

    def blocks_available(self: _Tree, fit: PrefixFit) -> int:
        """Return how many blocks a request can take once it has pinned what `fit` found on the device."""
        return self.blocks.n_free + self.n_evictable - fit.n_evictable

    def remember(
        self: _Tree, tokens: Sequence[int], blocks: Sequence[int], n_known: int = 0, n_blocks: int | None = None
    ) -> list[int]:
        """Do what `insert` does with the first n_blocks blocks; return the tree's own for those behind n_known.

        Args:
            tokens, blocks: as for `insert`; the caller holds the blocks.
            n_known: the first so many blocks are the tree's already: `match`, `insert` or this gave them.
            n_blocks: how many blocks to remember; None takes all that the tokens fill.

        Raises:
            ValueError: not 0 <= n_known <= n_blocks, or fewer tokens or blocks than that.
        """
        n_whole = len(tokens) // self.block_size
        n_blocks = n_whole if n_blocks is None else n_blocks
        if not 0 <= n_known <= n_blocks <= min(n_whole, len(blocks)):
            raise ValueError(
                f"n_known is {n_known} and n_blocks {n_blocks}, with {len(blocks)} blocks, and tokens for {n_whole}; "
                "n_known must be 0 or more and n_blocks not less than that, nor more than there are"
            )
        return self._remember_behind(tokens, blocks, n_known, n_blocks)

    def _remember_behind(
        self: _Tree, tokens: Sequence[int], blocks: Sequence[int], n_known: int, n_blocks: int
    ) -> list[int]:
        """Walk from the root, however much is known."""
        return self.insert(tokens[: n_blocks * self.block_size], blocks[:n_blocks])[n_known:]

    @contextmanager
    def counting_resumed(self: _Tree) -> Iterator[None]:
        """Count look-ups inside the `with` in `resumed_statistics`: those of requests that run again after preemption.

        They find what they have computed themselves, which says nothing about how much prompts have in common. Blocks
        that are evicted, off-loaded or loaded meanwhile are counted where all the others are.
        """
        before = copy(self.statistics)
        try:
            yield
        finally:
            self.resumed_statistics.take_lookups(self.statistics, before)


def _path(root: Node, tokens: Sequence[int], block_size: int) -> Iterator[Node]:
    """Yield the nodes that spell the longest cached prefix, wherever their blocks are."""
    node = root
    for key in whole_blocks(tokens, block_size):
        if key not in node.children:
            return
        node = node.children[key]
        yield node
