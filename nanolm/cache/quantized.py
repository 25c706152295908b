"""KV caches that take one byte a number: int8 codes with a scale, and 8-bit floats.

Both look like a `KVCache` from outside: floats go in, floats come out, so attention does not know. The memory is saved
and the batch can grow; time is saved only by an attention kernel that reads the codes themselves, which this is not.
Where numbers go is the cache's business and how they are kept is that of the kind, so each kind is ragged as well.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ..config import ModelConfig
from ..quantization.absmax import dequantize, quantize
from ..quantization.float8 import FLOAT8, saturated
from ..quantization.linear import SCALE_DTYPE
from .contiguous import KVCache
from .ragged import RaggedKVCache


class Int8KVCache(KVCache):
    """A KV cache of int8 codes with one scale for each head of each position: H + 2 bytes in place of 2H or 4H.

    Attributes:
        dtype: of the numbers that `update` returns.
        keys, values: codes, a list with one int8 (B, K, capacity, H) tensor a layer.
        key_scales, value_scales: a list with one bfloat16 (B, K, capacity, 1) tensor a layer.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch_size: int = 1,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(config, batch_size, capacity, torch.int8, device)
        self.dtype = dtype
        self.key_scales, self.value_scales = (
            [torch.ones(*codes.shape[:3], 1, dtype=SCALE_DTYPE, device=device) for codes in each]
            for each in (self.keys, self.values)
        )

    @property
    def allocated_bytes(self) -> int:
        """Bytes reserved for the full capacity, scales included."""
        return super().allocated_bytes + sum(t.nbytes for t in (*self.key_scales, *self.value_scales))

    def update(
        self, layer: int, k: Float[Tensor, "B K T H"], v: Float[Tensor, "B K T H"]
    ) -> tuple[Float[Tensor, "B K S H"], Float[Tensor, "B K S H"]]:
        """As KVCache.update, through codes: what comes back, past and new, is what the codes stand for, in `dtype`.

        Only the new positions are quantized, each head of each position a row of its own: 8 bits, symmetric absmax,
        codes chosen for the scale as stored (`quantize` with scale_dtype). The codes go to keys and values, their
        scales to key_scales and value_scales, at positions length … length + T - 1. Their index is `self._places(T)`,
        which a cache whose rows have lengths of their own replaces. A number is off by at most half its scale, so by
        less than 1/250 of the largest of its H.

        Raises:
            ValueError: as KVCache.update; a key or value that is NaN or infinite.
        """
        end, places = self._end_of(k, v), self._places(k.shape[2])
        stores = ((k, self.keys, self.key_scales), (v, self.values, self.value_scales))
        back = []
        for new, all_codes, all_scales in stores:
            codes, scales = all_codes[layer], all_scales[layer]
            new_codes, new_scales = quantize(new.detach(), 8, scale_dtype=SCALE_DTYPE)
            codes[places], scales[places] = new_codes, new_scales
            back.append(dequantize(codes[:, :, :end], scales[:, :, :end]).to(self.dtype))
        return back[0], back[1]


class Float8KVCache(KVCache):
    """A KV cache of 8-bit floats (E4M3): half of 16 bits, no scales. Numbers beyond ±448 are held at ±448.

    The storage is real everywhere. The arithmetic is not: on processors without 8-bit floats, and here on all, numbers
    are widened to `dtype` before they are multiplied.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch_size: int = 1,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(config, batch_size, capacity, FLOAT8, device)
        self.dtype = dtype

    def update(
        self, layer: int, k: Float[Tensor, "B K T H"], v: Float[Tensor, "B K T H"]
    ) -> tuple[Float[Tensor, "B K S H"], Float[Tensor, "B K S H"]]:
        """As KVCache.update; each number is rounded to 4 significant binary digits, off by at most a sixteenth."""
        keys, values = super().update(layer, saturated(k), saturated(v))
        return keys.to(self.dtype), values.to(self.dtype)


class RaggedInt8KVCache(Int8KVCache, RaggedKVCache):
    """An `Int8KVCache` whose rows have lengths of their own."""


class RaggedFloat8KVCache(Float8KVCache, RaggedKVCache):
    """A `Float8KVCache` whose rows have lengths of their own."""
