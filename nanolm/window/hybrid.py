"""A cache whose layers differ: some keep the whole text, some a window of it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..cache.contiguous import KVCache
from ..config import ModelConfig
from .ring import WindowKVCache


class HybridKVCache(KVCache):
    """One cache a layer: a whole one where `windows` has None, a ring where it has a number.

    Attributes:
        windows: for each layer the positions that its queries see, or None for all.
        layers: the caches, each of one layer.
        length: tokens read.
    """

    def __init__(
        self,
        config: ModelConfig,
        windows: Sequence[int | None],
        batch_size: int = 1,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if len(windows) != config.n_layers:
            raise ValueError(f"windows has {len(windows)} entries; there must be one a layer, {config.n_layers}")
        one_layer = config.with_layers(1)
        self.windows, self.batch_size = list(windows), batch_size
        self.layers = [
            KVCache(one_layer, batch_size, capacity, dtype, device)
            if window is None
            else WindowKVCache(one_layer, window, batch_size, dtype, device)
            for window in windows
        ]

    @property
    def length(self) -> int:
        """Tokens read."""
        return self.layers[0].length

    @property
    def nbytes(self) -> int:
        """Bytes that the positions kept occupy, over all layers."""
        return sum(cache.nbytes for cache in self.layers)

    @property
    def allocated_bytes(self) -> int:
        """Bytes reserved: the capacity in whole layers, the window in the others."""
        return sum(cache.allocated_bytes for cache in self.layers)

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """As the update of that layer's own cache."""
        return self.layers[layer].update(0, k, v)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
        """As that layer's own cache attends: to the whole text, or to the last positions of it."""
        return self.layers[layer].attend(0, q, k, v, scale)

    def advance(self, n: int) -> None:
        """Count n more positions as read in every layer, or in none if one refuses."""
        self._all(lambda cache: cache.advance(n))

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` positions in every layer, or in none if one cannot go back that far."""
        self._all(lambda cache: cache.truncate(length))

    def _all(self, step: Callable[[KVCache], None]) -> None:
        lengths = [cache.length for cache in self.layers]
        try:
            for cache in self.layers:
                step(cache)
        except ValueError:
            for cache, length in zip(self.layers, lengths, strict=True):
                cache.length = length
            raise
