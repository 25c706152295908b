"""Windows over any cache, and without one: everything is kept, and each layer's queries see what theirs may.

`HybridKVCache` keeps no more than a window, and cannot go back, hold rows of unequal lengths or codes. A model whose
configuration has windows must run all the same with whatever cache it is given.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..attention.dot_product import attend
from ..attention.rope import positions_of
from ..cache.contiguous import KVCache
from ..config import ModelConfig
from .masks import sliding_window_mask

Cache = TypeVar("Cache", bound=KVCache)


def in_windows(kind: type[Cache]) -> type[Cache]:
    """Return this kind of cache with an `attend` that shows each layer's queries what `config.windows` says.

    Everything else of it (lengths, dtype, what is stored) stays as it is.
    """
    return _in_windows(kind)  # pyright: ignore[reportReturnType]  functools.cache forgets which kind


@cache
def _in_windows(kind: type[KVCache]) -> type[KVCache]:
    return type(f"Windowed{kind.__name__}", (_Windowed, kind), {})


class _Windowed(KVCache):
    def __init__(self, config: ModelConfig, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        self.windows = config.windows

    def attend(
        self,
        layer: int,
        q: Float[Tensor, "B N T H"],
        k: Float[Tensor, "B K T H"],
        v: Float[Tensor, "B K T U"],
        scale: float | None = None,
    ) -> Float[Tensor, "B N T U"]:
        """As KVCache.attend, of what the layer's window shows."""
        window, T = self.windows[layer], q.shape[2]
        if window is None or self.length + T <= window:
            return super().attend(layer, q, k, v, scale)
        keys, values = self.update(layer, k, v)
        return attend(q, keys, values, _seen(positions_of(self.offset, T), keys.shape[2], window, q.device), scale)


def _seen(queries: Tensor, S: int, window: int, device: torch.device) -> Bool[Tensor, "B 1 T S"]:
    """Who sees whom: the queries stand at these positions, (T,) or one row of them a row, the keys at 0 … S - 1."""
    queries, keys = queries.to(device)[..., None], torch.arange(S, device=device)
    seen = (keys <= queries) & (keys > queries - window)
    return seen[None, None] if seen.ndim == 2 else seen.unsqueeze(1)


class WithoutPast:
    """A cache that keeps nothing: a pass over whole texts, in which each layer sees its window."""

    gives_rows, offset = False, 0

    def __init__(self, windows: Sequence[int | None], batch_size: int, n_positions: int) -> None:
        self.windows, self.batch_size, self.capacity = windows, batch_size, n_positions

    def attend(
        self,
        layer: int,
        q: Float[Tensor, "B N T H"],
        k: Float[Tensor, "B K T H"],
        v: Float[Tensor, "B K T U"],
        scale: float | None = None,
    ) -> Float[Tensor, "B N T U"]:
        """Return what the queries see of these keys alone."""
        window, T = self.windows[layer], q.shape[2]
        mask = None if window is None or window >= T else sliding_window_mask(T, T, window, q.device)
        return attend(q, k, v, mask, scale)
