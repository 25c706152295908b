"""Latent vectors and rotary keys in blocks that any request may hold."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..budget.shapes import LatentAttention
from ..config import ModelConfig
from ..paging.paged_cache import PagedKVCache, Scratch


class LatentPagedCache(PagedKVCache):
    """A paged cache of latent attention: one head of [latent vector; rotary key], C + R numbers a token and layer.

    A value is the latent part of its key, so there are no values in the pool.

    Attributes:
        pools: a list with one (1, 1, n_blocks, block_size · (C + R)) tensor a layer.
    """

    def __init__(
        self,
        config: ModelConfig,
        latent: LatentAttention,
        n_blocks: int,
        block_size: int = 16,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.latent_dim, self._width = latent.kv_latent_dim, latent.kv_latent_dim + latent.rotary_dim
        super().__init__(config, n_blocks, block_size, dtype, device)

    def _heads(self, config: ModelConfig) -> tuple[int, int]:
        return 1, self._width

    @property
    def is_plain(self) -> bool:
        """False: keys and values are not two halves of a pool, which is what the kernel of paged decode reads."""
        return False

    def _pool(self, numbers: int, dtype: torch.dtype, device: torch.device | str) -> Tensor:
        return self._zeros((1, 1, self.n_blocks, self.block_size * numbers), dtype, device)

    def write(self, layer: int, k: Float[Tensor, "1 n H"], v: Float[Tensor, "1 n C"], slots: Int[Tensor, "n"]) -> None:
        """Store the keys of n positions, each in its slot; v is the first part of k and is not kept again."""
        self.pools[layer].view(-1, self.head_dim).index_copy_(0, slots, k[0])

    def read(
        self, layer: int, tables: Int[Tensor, "B blocks"], scratch: Scratch | None = None
    ) -> tuple[Float[Tensor, "B 1 S H"], Float[Tensor, "B 1 S C"]]:
        """As PagedKVCache.read, the values a view of the keys."""
        keys = self._gather(self.pools[layer], tables, scratch).view(len(tables), 1, -1, self.head_dim)
        return keys, keys[..., : self.latent_dim]
