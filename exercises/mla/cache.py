"""The cache of latent attention: one short vector and one rotary key a token, whatever the number of heads."""

import torch
from jaxtyping import Float
from torch import Tensor

from ..attention import dot_product
from ..budget.shapes import LatentAttention
from ..cache.contiguous import KVCache
from ..config import ModelConfig

from course import NotYetWritten


class MLACache(KVCache):
    """Latent vectors and rotary keys of a batch whose rows all have the same length: C + R numbers a token and layer.

    Attributes:
        length: cached positions a row; only `advance` and `truncate`, which are KVCache's, move it.
        keys: a list with one (B, 1, capacity, C + R) tensor a layer: the keys of absorbed attention, one head for all.
        latents, rotary_keys: views of them, a list with one (B, capacity, C) and (B, capacity, R) tensor a layer.
    """

    def __init__(
        self,
        config: ModelConfig,
        latent: LatentAttention,
        batch_size: int = 1,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        capacity = config.max_positions if capacity is None else capacity
        if batch_size < 1 or capacity < 1:
            raise ValueError(f"batch_size is {batch_size} and capacity {capacity}; both must be 1 or more")
        self.capacity, self.batch_size, self.length = capacity, batch_size, 0
        C, R = latent.kv_latent_dim, latent.rotary_dim
        shape = (batch_size, 1, capacity, C + R)
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.n_layers)]
        self.latents, self.rotary_keys = ([k[:, 0, :, part] for k in self.keys] for part in (slice(C), slice(C, None)))

    @property
    def allocated_bytes(self) -> int:
        """Bytes reserved for the full capacity: L · B · capacity · (C + R) · bytes a number."""
        return sum(t.nbytes for t in self.keys)

    def update(
        self, layer: int, latents: Float[Tensor, "B T C"], rotary_keys: Float[Tensor, "B T R"]
    ) -> tuple[Float[Tensor, "B S C"], Float[Tensor, "B S R"]]:
        """Write this pass's latent vectors and rotary keys of one layer; return all of that layer's, past first.

        As in KVCache.update the T new positions go to length … length + T - 1, and `length` stays as it is.

        Raises:
            ValueError: shapes that are not (B, T, C) and (B, T, R), or no room for T more positions.
        """
        raise NotYetWritten(
            "exercise 9.10 MLACache.update is not written yet: read "
            "notebooks/week09_smaller_cache/week09_smaller_cache.ipynb, write it in exercises/mla/cache.py, then "
            "run: NANOLM_IMPL=exercises python -m pytest tests/mla/test_mla.py --exercise MLACache.update"
        )

    def attend(
        self,
        layer: int,
        q: Float[Tensor, "B N T CR"],
        k: Float[Tensor, "B 1 T CR"],
        v: Float[Tensor, "B 1 T C"],
        scale: float | None = None,
    ) -> Float[Tensor, "B N T C"]:
        """As KVCache.attend, of absorbed queries: keys are [latent; rotary key] of one head, values the latents."""
        C, end = v.shape[-1], self.length + k.shape[2]
        self.update(layer, v[:, 0], k[:, 0, :, C:])
        keys = self.keys[layer][:, :, :end]
        return dot_product.attend(q, keys, keys[..., :C], self.mask(q.shape[2]), scale)
