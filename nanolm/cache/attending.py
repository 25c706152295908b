"""What a model asks of its cache. Whoever has this can stand in for one: a pass over many requests does."""

from typing import Protocol

from torch import Tensor


class AttendingCache(Protocol):
    """What a model asks of its cache, a `KVCache` or not: where the new positions stand, and what they attend to.

    Attributes:
        batch_size: rows, as many as the tokens of a pass have.
        capacity: no position is at or above it.
        gives_rows: as KVCache's; where it is False there may be no `update` at all.
    """

    batch_size: int
    capacity: int
    gives_rows: bool

    @property
    def offset(self) -> int | Tensor:
        """The position of the next pass's first token, or what else `apply_rope` takes for it."""
        ...

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
        """Store this pass's keys and values of one layer; return what its queries see, as KVCache.attend."""
        ...
