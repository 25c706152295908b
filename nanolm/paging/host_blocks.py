"""A second home for blocks in the computer's own memory."""

from torch import Tensor

from .._require import require_count
from .paged_cache import PagedKVCache


class HostBlocks:
    """A second home for blocks in the computer's own memory: larger than a GPU's, and slower to reach.

    Copying can fail, for want of memory for example. Then the error is passed on, and what was kept is as before.

    Attributes:
        n_free: blocks that still fit.
    """

    def __init__(self, cache: PagedKVCache, n_blocks: int) -> None:
        require_count(0, n_blocks=n_blocks)
        self.cache, self.n_blocks = cache, n_blocks
        self._kept: dict[int, list[Tensor]] = {}
        self._next = 0

    @property
    def n_free(self) -> int:
        """Blocks that still fit."""
        return self.n_blocks - len(self._kept)

    def save(self, block: int) -> int | None:
        """Copy a block out of the pool and return a handle to it; None where there is no room."""
        if not self.n_free:
            return None
        # Without a copy this would, on a CPU, be the pool itself, whose content will change.
        copies = [pool[:, :, block].to("cpu", copy=True) for pool in self.cache._tensors]
        self._next += 1
        self._kept[self._next] = copies
        return self._next

    def load(self, handle: int, block: int) -> None:
        """Copy what was saved into a block of the pool; the handle stays good, even if copying fails midway."""
        for pool, kept in zip(self.cache._tensors, self._kept[handle], strict=True):
            pool[:, :, block] = kept.to(pool.device)

    def drop(self, handle: int) -> None:
        """Forget what was saved."""
        del self._kept[handle]
