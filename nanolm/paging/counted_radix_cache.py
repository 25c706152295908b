"""The prefix cache of a server: a RadixCache that is told of every pin and never looks through what it has.

Matching, inserting and evicting are `RadixCache`'s own, and what comes out is the same to the last block. What differs
is the price of three things, which there grows with the tree: how much can be evicted is counted as it changes, pinned
leaves do not wait among those that may go, and a text that grows is remembered from its last known block on. (SGLang
counts what can be evicted in the same way, with a lock count in every node.)
"""

from collections.abc import Collection, Sequence

from .radix_cache import RadixCache
from .radix_tree import HostStore, LeastRecent, Node
from .watched import WatchedAllocator


class CountedRadixCache(RadixCache):
    """A RadixCache over blocks whose allocator says who holds them.

    One thing can be seen: `last_used` of a node that has others behind it on the device may lag behind theirs.
    """

    def __init__(self, blocks: WatchedAllocator, block_size: int, host: HostStore | None = None) -> None:
        super().__init__(blocks, block_size, host)
        blocks.on_shared.append(self._block_was_pinned)
        blocks.on_single.append(self._block_was_released)

    def _start_empty(self) -> None:
        super()._start_empty()
        self._node_of: dict[int, Node] = {}
        # Of each held node, by how much: 1 for others that hold its block, and 1 for each held child.
        self._holds: dict[Node, int] = {}
        self._device_leaves = LeastRecent(self._may_go)

    def _may_go(self, node: Node) -> bool:
        return node.is_device_leaf and node not in self._holds

    def _held(self) -> Collection[Node]:
        return self._holds.keys()

    def _place(self, node: Node, block: int) -> None:
        self._node_of[block] = node
        if self.blocks.references(block) > 1:
            self._block_was_pinned(block)
        super()._place(node, block)

    def _move_out(self, leaf: Node) -> None:
        block, parent = leaf.block, leaf.parent
        assert block is not None and parent is not None  # it is on the device
        # `_remember_behind` leaves out the nodes above; what was behind a node is what it was used for last.
        parent.last_used = max(parent.last_used, leaf.last_used)
        super()._move_out(leaf)
        del self._node_of[block]

    def _block_was_pinned(self, block: int) -> None:
        """Count a block's node as held, and those above it up to the first that was held already.

        A path is pinned from the root on, or at once: either way each of its nodes is looked at twice at most.
        """
        node = self._node_of.get(block)
        while node is not None and node.parent is not None:
            n_holds = self._holds.get(node, 0)
            self._holds[node] = n_holds + 1
            node = node.parent if n_holds == 0 else None

    def _block_was_released(self, block: int) -> None:
        """Undo that, up to the first node that is still held; a leaf that may go now waits among the others again."""
        if block not in self._node_of:
            return
        node = lowest = self._node_of[block]
        while node.parent is not None:
            n_holds = self._holds.pop(node) - 1
            if n_holds:
                self._holds[node] = n_holds
                break
            node = node.parent
        self._device_leaves.add(lowest)

    def _remember_behind(self, tokens: Sequence[int], blocks: Sequence[int], n_known: int, n_blocks: int) -> list[int]:
        """Insert behind the last known block only: what is below a node is a tree as good as the whole."""
        size, known = self.block_size, self._node_of.get(blocks[n_known - 1]) if n_known else None
        if known is None or n_known == n_blocks or known.key != tuple(tokens[(n_known - 1) * size : n_known * size]):
            return super()._remember_behind(tokens, blocks, n_known, n_blocks)
        whole, self.root = self.root, known
        try:
            return self.insert(tokens[n_known * size : n_blocks * size], blocks[n_known:n_blocks])
        finally:
            self.root = whole
