"""Attention that looks back a fixed number of positions, and the cache that keeps no more than those.

A query with window W sees its own position and the W - 1 before it. Its layer can forget all others, so its cache
stops growing at W positions: a ring, in which each new position takes the place of the one that has just gone out of
sight. What a model then knows of older text is what has passed upwards, W - 1 positions a layer (Child 2019, Beltagy
2020, Jiang 2023 "Mistral 7B"). A hybrid keeps some layers that see everything (Gemma 2 and 3).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .._require import require_count
from ..cache.contiguous import KVCache
from ..config import ModelConfig
from .masks import sliding_window_mask


class WindowKVCache(KVCache):
    """Keys and values of the last `window` positions, in rings; rows all have the same length.

    Position p lies at place p % window. Keys are cached after their rotation and so know where they stand: their order
    in the ring tells attention nothing, as long as no key needs to be hidden.

    Attributes:
        window: positions that a query sees, its own among them; also the capacity.
        length: tokens read, which may be more than are kept.
        keys, values: a list with one (B, K, window, H) tensor a layer.
    """

    def __init__(
        self,
        config: ModelConfig,
        window: int,
        batch_size: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        require_count(1, window=window)
        super().__init__(config, batch_size, window, dtype, device)
        self.window = window
        self._written = [0] * config.n_layers  # where each layer's newest position ends, counted or not

    @property
    def nbytes(self) -> int:
        """Bytes that the positions kept occupy."""
        return self.allocated_bytes * min(self.length, self.window) // self.window

    def update(
        self, layer: int, k: Float[Tensor, "B K T H"], v: Float[Tensor, "B K T H"]
    ) -> tuple[Float[Tensor, "B K S H"], Float[Tensor, "B K S H"]]:
        """Write this pass's keys and values of one layer; return all of that layer's that one of its queries may see.

        The T new positions length … length + T - 1 go to places position % window of the ring; of more than `window`
        only the last `window` are kept. `length` stays as it is: `advance` moves it.

        What comes back depends on T. One new position: what the ring holds after it is written, in the order of the
        ring: S = min(length + 1, window), and the query sees all of it. More: the new positions may overwrite some
        that their first queries still see, so it is a copy of what was visible before, in the order of the text, with
        the new positions behind it: S = T + min(length, window - 1), the latter the past positions that the first
        new query sees. `mask` hides the rest.

        Raises:
            ValueError: shapes that are not (B, K, T, H), or a past that was overwritten by positions never counted.
        """
        T = self._new_positions(k, v)
        self._need_past(self.length, self._written[layer])
        self._written[layer] = self.length + T
        keys, values = self.keys[layer], self.values[layer]
        k, v = k.detach().to(keys.dtype), v.detach().to(keys.dtype)
        if T == 1:
            place = self.length % self.window
            keys[:, :, place], values[:, :, place] = k[:, :, 0], v[:, :, 0]
            return keys[:, :, : self.length + 1], values[:, :, : self.length + 1]
        end, n_kept = self.length + T, min(T, self.window)
        past = torch.arange(self.length - min(self.length, self.window - 1), self.length) % self.window
        kept = torch.arange(end - n_kept, end) % self.window
        visible = torch.cat([keys[:, :, past], k], dim=2), torch.cat([values[:, :, past], v], dim=2)
        keys[:, :, kept], values[:, :, kept] = k[:, :, -n_kept:], v[:, :, -n_kept:]
        return visible

    def advance(self, n: int) -> None:
        """Count n more positions as read; called once a pass, after every layer has written its own.

        Raises:
            ValueError: n is negative, or so much smaller than the number written that some of the past is lost.
        """
        if n < 0:
            raise ValueError(f"n is {n}; a cache advances by 0 or more positions (truncate goes back)")
        self._need_past(self.length + n, max(self._written))
        self.length += n

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` positions, if those that the next query sees are still in the ring.

        A ring that has overwritten nothing can go back to any length. One that has can take back one position, no more:
        the older ones, which would come into sight again, are gone. And any ring can forget everything.

        Raises:
            ValueError: length is negative, beyond what was read, or too far back.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length is {length}; 0 to {self.length}, the positions read, can stay")
        self._need_past(length, max(self._written))
        self.length = length

    def mask(self, T: int) -> Bool[Tensor, "T S"] | None:
        """Return the mask for T new positions over what `update` returns; None for one, which sees all of that."""
        if T == 1:
            return None
        past = min(self.length, self.window - 1)
        return sliding_window_mask(T, past + T, self.window, self.keys[0].device)

    def _need_past(self, length: int, written: int) -> None:
        """An error where the query at position `length` sees positions that newer ones have overwritten."""
        first_seen, first_kept = max(0, length - self.window + 1), max(0, written - self.window)
        if length and first_seen < first_kept:
            raise ValueError(
                f"length is {length}, whose query sees back to position {first_seen}, but the ring of {self.window} "
                f"holds none before {first_kept} any more: it cannot go back that far; read the text again"
            )
