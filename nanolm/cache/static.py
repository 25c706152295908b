"""A ragged cache that stays at its addresses, for passes that are recorded once and repeated."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .ragged import RaggedKVCache


class StaticKVCache(RaggedKVCache):
    """A ragged cache that stays at its addresses: the rows' lengths too, and every pass reads the whole capacity."""

    _offset: Tensor
    _visible: Tensor

    def update(
        self, layer: int, k: Float[Tensor, "B K T H"], v: Float[Tensor, "B K T H"]
    ) -> tuple[Float[Tensor, "B K S H"], Float[Tensor, "B K S H"]]:
        """As RaggedKVCache.update, with S the capacity."""
        super().update(layer, k, v)
        return self.keys[layer], self.values[layer]

    def mask(self, T: int) -> Bool[Tensor, "B 1 T S"]:
        """As RaggedKVCache.mask, with S the capacity. For one position it is a buffer too, which `advance` rewrites."""
        return self._visible[:, None, None] if T == 1 else self._mask(T, self.capacity)

    def first_rows(self, n: int) -> "StaticKVCache":
        """Return a cache of the first n rows in the same memory, the lengths on the device included.

        Only this cache moves them: the one returned knows what the device knows, and its `lengths` stay as they are.
        """
        part = object.__new__(StaticKVCache)
        part.__dict__ |= self.__dict__
        part.batch_size, part.lengths = n, self.lengths[:n]
        part.keys, part.values = ([x[:n] for x in tensors] for tensors in (self.keys, self.values))
        part._rows, part._offset, part._visible = self._rows[:n], self._offset[:n], self._visible[:n]
        return part

    def _set(self, lengths: list[int]) -> None:
        self.lengths, self.length = list(lengths), max(lengths)
        device = self.keys[0].device
        if not hasattr(self, "_offset"):  # the first time
            self._offset = torch.zeros(self.batch_size, dtype=torch.long, device=device)
            self._visible = torch.zeros(self.batch_size, self.capacity, dtype=torch.bool, device=device)
        self._offset.copy_(torch.tensor(self.lengths))
        torch.le(torch.arange(self.capacity, device=device), self._offset[:, None], out=self._visible)
