"""An allocator that says when a block changes hands, so that nobody has to ask all blocks about their holders."""

from collections.abc import Callable

from .blocks import BlockAllocator

Listener = Callable[[int], None]


class WatchedAllocator(BlockAllocator):
    """A BlockAllocator with listeners, called with the block's number after its count has changed.

    A listener looks and writes down; it must not allocate, share or free. What is refused is not told.

    Attributes:
        on_allocate: called for every block that is given out. What was known of its content is not true any more.
        on_shared: called when a block with one holder gets a second.
        on_single: called when a block with two holders is left with one.
        on_free: called when the last holder of a block has gone.
    """

    def __init__(self, n_blocks: int) -> None:
        super().__init__(n_blocks)
        self.on_allocate: list[Listener] = []
        self.on_shared: list[Listener] = []
        self.on_single: list[Listener] = []
        self.on_free: list[Listener] = []

    def allocate(self) -> int:
        """As BlockAllocator.allocate; `on_allocate` is told."""
        block = super().allocate()
        _tell(self.on_allocate, block)
        return block

    def share(self, block: int) -> None:
        """As BlockAllocator.share; `on_shared` is told of a second holder."""
        super().share(block)
        if self.references(block) == 2:
            _tell(self.on_shared, block)

    def free(self, block: int) -> None:
        """As BlockAllocator.free; `on_single` is told when one holder is left, `on_free` when none is."""
        super().free(block)
        n_holders = self.references(block)
        if n_holders < 2:
            _tell(self.on_free if n_holders == 0 else self.on_single, block)


def _tell(listeners: list[Listener], block: int) -> None:
    for listener in listeners:
        listener(block)
