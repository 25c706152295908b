"""The KV cache: keys and values of every token so far, so that no pass computes them twice.

It knows tensors and lengths. It does not know the model: a layer hands it its queries and its new keys and values, and
the cache, which alone knows what lies where, attends. Whoever has `offset` and `attend` can stand in for it: keys in
blocks, as codes, in a ring. Memory is taken once, at full capacity; a step only writes into it.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..attention.dot_product import attend
from ..config import ModelConfig

from course import NotYetWritten


class KVCache:
    """Keys and values of a batch whose rows all have the same length.

    Attributes:
        length: cached positions a row. Every layer of one pass writes at the same place, so only `advance` moves it.
        keys, values: a list with one (B, K, capacity, H) tensor a layer.
        gives_rows: whether `update` returns what is cached as rows, which somebody else may attend to.
    """

    gives_rows = True

    def __init__(
        self,
        config: ModelConfig,
        batch_size: int = 1,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        capacity = config.max_positions if capacity is None else capacity
        if batch_size < 1 or capacity < 1:
            raise ValueError(f"batch_size is {batch_size} and capacity {capacity}; both must be 1 or more")
        self.capacity, self.batch_size = capacity, batch_size
        shape = (batch_size, config.n_kv_heads, capacity, config.head_dim)
        # Zeros, not empty: whatever lies in a masked place is still multiplied by 0, and 0 · NaN is NaN.
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.n_layers)]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.n_layers)]
        self.length = 0

    @property
    def offset(self) -> int:
        """Return the position of the next pass's first token, by which layers rotate; all cached ones come first."""
        raise NotYetWritten(
            "exercise 2.5 KVCache is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, write "
            "it in exercises/cache/contiguous.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/cache/test_contiguous.py --exercise KVCache"
        )

    @property
    def nbytes(self) -> int:
        """Bytes that the cached positions occupy: 2 · L · B · K · length · H · bytes a number."""
        return self.allocated_bytes * self.length // self.capacity

    @property
    def allocated_bytes(self) -> int:
        """Bytes reserved for the full capacity, used or not."""
        return sum(t.nbytes for t in (*self.keys, *self.values))

    def update(
        self, layer: int, k: Float[Tensor, "B K T H"], v: Float[Tensor, "B K T H"]
    ) -> tuple[Float[Tensor, "B K S H"], Float[Tensor, "B K S H"]]:
        """Write this pass's keys and values of one layer; return all of that layer's, past first, S = length + T.

        The T new positions go to length … length + T - 1. `length` stays as it is: the other layers of this pass
        must write to the same positions, so the caller calls `advance(T)` once, after the last layer. No gradient flows
        into the cache, which serves inference.

        Raises:
            ValueError: shapes that are not (B, K, T, H), or no room for T more positions.
        """
        raise NotYetWritten(
            "exercise 2.5 KVCache is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, write "
            "it in exercises/cache/contiguous.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/cache/test_contiguous.py --exercise KVCache"
        )

    def advance(self, n: int) -> None:
        """Count n more positions as cached; called once a pass, after every layer has written its own.

        Raises:
            ValueError: n is negative, or more than the room left.
        """
        raise NotYetWritten(
            "exercise 2.5 KVCache is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, write "
            "it in exercises/cache/contiguous.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/cache/test_contiguous.py --exercise KVCache"
        )

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` positions; nothing is copied or freed.

        Raises:
            ValueError: length is negative or beyond what is cached.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length is {length}; 0 to {self.length}, the cached positions, can stay")
        self.length = length

    def attend(
        self,
        layer: int,
        q: Float[Tensor, "B N T H"],
        k: Float[Tensor, "B K T H"],
        v: Float[Tensor, "B K T U"],
        scale: float | None = None,
    ) -> Float[Tensor, "B N T U"]:
        """Store this pass's keys and values of one layer; return what its T queries see of all that layer's positions.

        The queries stand at positions length … length + T - 1, and each sees the keys at its own position and at all
        before it: softmax(scale · q·kᵀ)·v over those, where query head n reads key/value head n // (N / K). `update`
        stores and gives all keys and values back; `self.mask(T)` is the mask, None where every query sees its own
        position and all before it. The length stays as it is.

        Args:
            scale: of the scores; None means 1 / √H.

        Raises:
            ValueError: what `update` raises.
        """
        raise NotYetWritten(
            "exercise 2.5 KVCache is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, write "
            "it in exercises/cache/contiguous.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/cache/test_contiguous.py --exercise KVCache"
        )

    def mask(self, T: int) -> Bool[Tensor, "..."] | None:
        """Return the mask of T new positions over what `update` returns; None: causal, as rows of one length are."""

    def _places(self, T: int) -> tuple[slice | Tensor, ...]:
        """The index of the T new positions in whatever a layer keeps for each position, (B, K, capacity, …)."""
        return slice(None), slice(None), slice(self.length, self.length + T)

    def _end_of(self, k: Tensor, v: Tensor) -> int:
        """Where the new positions end; an error where they do not fit."""
        end = self.length + self._new_positions(k, v)
        self._need_room(end)
        return end

    def _new_positions(self, k: Tensor, v: Tensor) -> int:
        """T; an error where a shape is wrong, which might be broadcast unnoticed."""
        B, K, _, H = self.keys[0].shape
        T = k.shape[2]
        for name, x in (("k", k), ("v", v)):
            if x.shape != (B, K, T, H) or not T:
                raise ValueError(
                    f"{name} has shape {tuple(x.shape)}; this cache takes ({B}, {K}, T, {H}), (B, K, T, H)"
                )
        return T

    def _need_room(self, end: int) -> None:
        if end > self.capacity:
            raise ValueError(f"capacity is {self.capacity} positions and this pass needs {end}: make the cache larger")
