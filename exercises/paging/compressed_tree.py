"""The prefix cache as SGLang keeps it: a radix tree whose nodes hold runs of blocks instead of one block each.

A prompt of a hundred blocks that parts from no other is one node here, and a hundred in `radix_cache`. What is found,
kept and evicted is the same to the last block: a run is cut in two wherever a text leaves it, so all blocks of a run
have always been used together. (No host store here; nothing else is left out.)

Source: Zheng 2024 ("SGLang: Efficient execution of structured language model programs", section 3).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from .._require import require_count
from .radix_tree import Blocks, LeastRecent, whole_blocks

from course import NotYetWritten

Key = tuple[int, ...]  # the tokens of one block


@dataclass(eq=False, slots=True)
class Run:
    """Blocks one behind the other, with no branch between them; the root alone has none.

    Attributes:
        keys: the tokens of each of its blocks.
        blocks: the blocks, as many as keys.
        parent: the run that it stands behind.
        last_used: when all of it was last found or inserted.
        children: the runs behind its last block, by the first of their keys.
    """

    keys: list[Key] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    parent: "Run | None" = None
    last_used: int = 0
    children: dict[Key, "Run"] = field(default_factory=dict)

    @property
    def is_leaf(self) -> bool:
        """Whether nothing stands behind it; the root is no leaf."""
        return self.parent is not None and not self.children


def n_equal(one: Sequence[Key], other: Sequence[Key]) -> int:
    """Return how many keys two lists have in common at their beginning."""
    differ = (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))


class CompressedRadixCache:
    """Blocks that were run before, found again by the tokens they hold: `RadixCache` with runs for nodes.

    The tree holds one reference of each of its blocks. Time is counted in calls of `match` and `insert`.

    Attributes:
        root: the run of the empty prefix, without a block.
        n_blocks: blocks that the tree holds.
    """

    def __init__(self, blocks: Blocks, block_size: int) -> None:
        require_count(1, block_size=block_size)
        self.blocks, self.block_size = blocks, block_size
        self.root, self.n_blocks = Run(), 0
        self._clock = itertools.count(1)
        # Leaves by their last use: `pop()` takes out the one used longest ago (None: there is none), `add` puts one in.
        self.leaves: LeastRecent[Run] = LeastRecent(lambda run: run.is_leaf)

    @property
    def n_runs(self) -> int:
        """Nodes of the tree, the root left out."""
        below = [self.root]
        for run in below:
            below += run.children.values()
        return len(below) - 1

    def match(self, tokens: Sequence[int], limit: int | None = None) -> list[int]:
        """Return the blocks of the longest cached prefix of whole blocks, each shared once for the caller.

        Args:
            limit: only the first so many tokens may be found, so that some are left to be run.

        Raises:
            ValueError: limit not a whole number, 0 or more.
        """
        limit = len(tokens) if limit is None else limit
        require_count(0, limit=limit)
        found = [block for run in self.path(tokens[:limit], next(self._clock)) for block in run.blocks]
        for block in found:
            self.blocks.share(block)
        return found

    def path(self, tokens: Sequence[int], now: int) -> list[Run]:
        """Return the runs that spell the longest cached prefix of whole blocks, from the root's child downwards.

        The path ends at the end of a run: one that the tokens leave in the middle is split there, and its front is the
        last of the path. The `last_used` of every run on the path becomes `now`; what is behind the cut keeps its own.
        """
        raise NotYetWritten(
            "exercise 7.7 CompressedRadixCache is not written yet: read "
            "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in "
            "exercises/paging/compressed_tree.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/paging/test_compressed_tree.py --exercise CompressedRadixCache"
        )

    def split(self, run: Run, n: int) -> Run:
        """Cut a run in two behind its first n blocks, of which it has more; return the front, a new run.

        The front stands in the run's place: its parent's child, with the run's last use, and the run as its only child.
        The run itself stays the object that it is, with its own children, and keeps the rest of its keys and blocks;
        so whatever knows the end of it, `leaves` for one, need not be told.
        """
        raise NotYetWritten(
            "exercise 7.7 CompressedRadixCache is not written yet: read "
            "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in "
            "exercises/paging/compressed_tree.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/paging/test_compressed_tree.py --exercise CompressedRadixCache"
        )

    def insert(self, tokens: Sequence[int], blocks: Sequence[int]) -> list[int]:
        """Remember the whole blocks of `tokens`; return the tree's own blocks for them, in order.

        blocks[i] holds tokens[i · block_size : (i + 1) · block_size]; those beyond the last whole block are ignored.
        Where the tree has a block already (`path` says how far), it keeps it and the caller's stays the caller's. Of
        the others it takes a reference each; together they are one new run behind the path, among the `leaves`. Where
        nothing is new there is no new run. Path and run are used now, one `next(self._clock)`.

        Raises:
            ValueError: fewer blocks than the tokens fill.
        """
        raise NotYetWritten(
            "exercise 7.7 CompressedRadixCache is not written yet: read "
            "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in "
            "exercises/paging/compressed_tree.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/paging/test_compressed_tree.py --exercise CompressedRadixCache"
        )

    def evict(self, n: int) -> int:
        """Free up to n blocks that only the tree holds; return how many were freed.

        Leaves go first, the least recently used before the others, each from its last block on and only as far as
        n reaches. A block with more than one reference is pinned: it stays, and with it all that it stands on, while
        other leaves can still go. A run without blocks is taken out of the tree, and its parent may be a leaf then, in
        this same call. What is left of a leaf goes back among the `leaves`.

        Raises:
            ValueError: n not a whole number, 0 or more.
        """
        raise NotYetWritten(
            "exercise 7.7 CompressedRadixCache is not written yet: read "
            "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in "
            "exercises/paging/compressed_tree.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/paging/test_compressed_tree.py --exercise CompressedRadixCache"
        )
