"""Prompt caching: what of a prompt was run before, in which blocks it lies, and what to give up when room is short.

Bookkeeping only: tokens, block numbers, counts. What a block number stands for, how a block is copied to CPU memory and
who runs when is known elsewhere, so all of this is tested without a model.
"""

import itertools
from collections.abc import Collection, Sequence
from operator import attrgetter

from .._require import require_count
from .admission import AdmissionCalls
from .radix_tree import COPY_ERRORS, Blocks, HostStore, LeastRecent, Node, PrefixStats, whole_blocks

from course import NotYetWritten


def reusable_prefix_tokens(cached: Sequence[int], prompt: Sequence[int], granularity: int = 1) -> int:
    """Return how many tokens of the prompt need not be run, when `cached` was run before.

    Keys and values depend on all tokens before them, so only a common prefix is worth anything: the first token that
    differs ends it, whatever comes behind. The result is a whole multiple of `granularity` and at most
    len(prompt) - 1: at least one position must be run, or there would be no logits for the next token. Of an empty
    prompt it is 0.

    Raises:
        ValueError: granularity not a whole number above 0.
    """
    raise NotYetWritten(
        "exercise 7.1 reusable_prefix_tokens is not written yet: read "
        "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in exercises/paging/radix_cache.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/paging/test_prefix.py --exercise "
        "reusable_prefix_tokens"
    )


class RadixCache(AdmissionCalls):
    """Blocks that were run before, found again by the tokens they hold.

    A tree: the nodes on the way down from `root` spell a prefix block by block, and each says where the keys and values
    of its own block are: in a device block, of which the tree holds one reference, or in the host store, never in both.
    The same tokens behind another prefix are another node, since their keys and values differ. The symbols are
    whole blocks because nothing smaller is shared or freed. A node on the device has its parent there too. Time is
    counted in calls: each takes one `next(self._clock)` as its now.

    (Zheng et al. 2024, "SGLang: Efficient Execution of Structured Language Model Programs", where it is called
    RadixAttention; shared blocks with reference counts are those of Kwon et al. 2023, PagedAttention.)

    Attributes:
        root: the node of the empty prefix, without a block.
        statistics: counts since the cache was made.
        resumed_statistics: the look-ups made under `counting_resumed`, which `statistics` leaves out.
    """

    def __init__(self, blocks: Blocks, block_size: int, host: HostStore | None = None) -> None:
        require_count(1, block_size=block_size)
        self.blocks, self.block_size, self.host = blocks, block_size, host
        self.statistics, self.resumed_statistics = PrefixStats(), PrefixStats()
        self._clock = itertools.count(1)
        self._start_empty()

    @property
    def n_blocks(self) -> int:
        """Device blocks that the tree holds."""
        return len(self._on_device)

    @property
    def device_blocks(self) -> Collection[int]:
        """Those blocks, each once, parents before their children."""
        return self._on_device.values()  # pyright: ignore[reportReturnType]  a view has a length and members

    @property
    def n_host_blocks(self) -> int:
        """Blocks that only the host store has."""
        return len(self._on_host)

    @property
    def n_evictable(self) -> int:
        """Device blocks that `evict` could free now: those that nobody else holds, and nothing held behind them."""
        return self.n_blocks - len(self._held())

    def _held(self) -> Collection[Node]:
        """Nodes whose device block somebody else holds, or one behind it.

        It looks at every block of the tree, since a plain allocator does not say when a reference goes.
        """
        held = {self.root}
        for node, block in reversed(self._on_device.items()):  # children before parents
            if node in held or self.blocks.references(block) > 1:
                assert node.parent is not None  # only the root has none, and no block
                held |= {node, node.parent}
        return held - {self.root}

    def match(self, tokens: Sequence[int], limit: int | None = None) -> list[int]:
        """Return the device blocks of the longest cached prefix of whole blocks, and pin them for the caller.

        Each block is shared once on the caller's behalf; the caller frees it like one of its own, and until then
        `evict` leaves it alone. The `last_used` of every node found becomes now. A node in the host store is brought
        back first (`_bring_back`, which evicts where no block is free); where there is no block for it, the match ends.
        The statistics count one look-up, all of `tokens` as looked up, and the tokens of the blocks found as hits.

        Args:
            limit: only the first so many tokens may be found, so that some are left to be run.

        Raises:
            ValueError: limit not a whole number, 0 or more.
        """
        raise NotYetWritten(
            "exercise 7.2 RadixCache is not written yet: read "
            "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in "
            "exercises/paging/radix_cache.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/paging/test_prefix.py --exercise RadixCache"
        )

    def insert(self, tokens: Sequence[int], blocks: Sequence[int]) -> list[int]:
        """Remember the whole blocks of `tokens`; return the tree's own device blocks for them, in order.

        blocks[i] holds tokens[i · block_size : (i + 1) · block_size]; those beyond the last whole block are ignored.
        Where the tree has a device block for that prefix already, it keeps it and the caller's stays the caller's.
        Otherwise the tree shares the caller's block, taking a reference of its own, and `_place` enters it at the node:
        a new Node(key, parent) among its parent's `children`, or an old one whose contents were in the host store.
        The `last_used` of every node on the way becomes now, before its block is placed.

        Raises:
            ValueError: fewer blocks than the tokens fill.
        """
        raise NotYetWritten(
            "exercise 7.2 RadixCache is not written yet: read "
            "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in "
            "exercises/paging/radix_cache.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/paging/test_prefix.py --exercise RadixCache"
        )

    def evict(self, n: int) -> int:
        """Free up to n device blocks that only the tree holds; return how many were freed.

        Taken are leaves, nodes without a child on the device, the least recently used first; when the last
        child of a node is gone, it is a leaf too, in this same call. A block with more than one reference is pinned: it
        stays, and can go in a later call once it has been released.

        `_device_leaves` has the leaves in order: `pop()` takes one out, `add(node)` puts it back. `_move_out` takes
        a leaf's block off the device and keeps the books, its parent's as well.

        Raises:
            ValueError: n not a whole number, 0 or more.
        """
        raise NotYetWritten(
            "exercise 7.2 RadixCache is not written yet: read "
            "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in "
            "exercises/paging/radix_cache.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/paging/test_prefix.py --exercise RadixCache"
        )

    def clear(self) -> None:
        """Forget everything but the statistics: give back the tree's references and drop what the host store has."""
        for block in self._on_device.values():
            self.blocks.free(block)
        if self.host is not None:
            for handle in self._on_host.values():
                self.host.drop(handle)
        self._start_empty()

    def _start_empty(self) -> None:
        self.root = Node()
        # From node to block and from node to handle, in an order: on the device a parent comes before its children.
        self._on_device: dict[Node, int] = {}
        self._on_host: dict[Node, int] = {}
        self._device_leaves = LeastRecent(attrgetter("is_device_leaf"))
        self._host_leaves = LeastRecent(attrgetter("is_host_leaf"))

    def _place(self, node: Node, block: int) -> None:
        """Enter a device block, with a reference that is now the tree's, at a node that has none."""
        assert node.parent is not None  # only the root has none, and no block
        self._drop_copy(node)
        node.block = block
        node.parent.n_children_on_device += 1
        self._on_device[node] = block
        self._device_leaves.add(node)

    def _bring_back(self, node: Node) -> bool:
        """Return whether the node is on the device, loading it from the host store if a block can be had."""
        if node.block is None:
            if not self.blocks.n_free:
                self._evict_for(node)
            if not self.blocks.n_free:
                return False
            block = self.blocks.allocate()
            if not self._load(node, block):
                return False
            self._place(node, block)
        return True

    def _load(self, node: Node, block: int) -> bool:
        """Copy a node's contents back into a block. Where that fails the block is free again, and the copy stays."""
        assert self.host is not None and node.handle is not None  # where else should it be?
        try:
            self.host.load(node.handle, block)
        except BaseException as error:
            self.blocks.free(block)
            if not isinstance(error, COPY_ERRORS):
                raise
            self.statistics.n_failed_copies += 1
            return False
        self.statistics.n_loaded += 1
        return True

    def _evict_for(self, node: Node) -> None:
        """Evict a block, so that a node of the host store can come back; its own copy is not what makes room there.

        Without this a full pool, which is what a cache soon has, would never take anything back.
        """
        handle, node.handle = node.handle, None
        self.evict(1)
        node.handle = handle
        self._host_leaves.add(node)

    def _move_out(self, leaf: Node) -> None:
        """Free a leaf's device block; its contents go to the host store, or the leaf is forgotten."""
        block, parent = leaf.block, leaf.parent
        assert block is not None and parent is not None  # it is on the device
        try:
            handle = None if self.host is None else self._save(self.host, block)
        except BaseException:
            self._device_leaves.add(leaf)  # whoever asked has taken it out
            raise
        self.blocks.free(block)
        leaf.block = None
        del self._on_device[leaf]
        parent.n_children_on_device -= 1
        self._device_leaves.add(parent)
        self.statistics.n_evicted_blocks += 1
        if handle is None:
            self._forget(leaf)
            return
        leaf.handle = handle
        self._on_host[leaf] = handle
        self._host_leaves.add(leaf)
        self.statistics.n_offloaded += 1

    def _save(self, host: HostStore, block: int) -> int | None:
        """Copy a block to the host store, dropping the least recently used leaves there until it fits.

        None: it does not, or copying failed.
        """
        try:
            while (handle := host.save(block)) is None:
                oldest = self._host_leaves.pop()
                if oldest is None:
                    break
                self._forget(oldest)
        except COPY_ERRORS:
            self.statistics.n_failed_copies += 1
            return None
        return handle

    def _forget(self, node: Node) -> None:
        """Take a node without a device block out of the tree, and what the host store has behind it."""
        assert node.parent is not None  # the root always stays
        behind = [node]
        while behind:
            gone = behind.pop()
            self._drop_copy(gone)
            behind += gone.children.values()
        del node.parent.children[node.key]
        self._host_leaves.add(node.parent)

    def _drop_copy(self, node: Node) -> None:
        if self.host is not None and node.handle is not None:
            self.host.drop(node.handle)
            del self._on_host[node]
            node.handle = None
