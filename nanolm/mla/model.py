"""NanoLM with latent attention in every layer: small enough to run and to compare, trained by nobody."""

from ..attention.rope_scaling import rotary_table
from ..budget.shapes import LatentAttention
from ..config import ModelConfig
from ..model.decoder import NanoLM
from .cache import MLACache
from .layer import MLA
from .paged_cache import LatentPagedCache

# Two layers that run anywhere: 48 numbers a token and layer, where four key/value heads would keep 256.
DEMO_CONFIG = ModelConfig(
    vocab_size=256, d_model=128, n_layers=2, n_heads=4, n_kv_heads=4, head_dim=32, d_ff=256, max_positions=1024
)
DEMO_LATENT = LatentAttention(kv_latent_dim=32, rotary_dim=16, value_dim=32)


class LatentLM(NanoLM):
    """A NanoLM whose layers attend by `MLA`; everything else, generation too, is NanoLM's."""

    def __init__(self, config: ModelConfig = DEMO_CONFIG, latent: LatentAttention = DEMO_LATENT) -> None:
        super().__init__(config)
        self.latent = latent
        for i, layer in enumerate(self.layers):
            layer.attention = MLA(config, latent, i)
        self.rotary = rotary_table(latent.rotary_dim, config.rope_theta, config.rope_scaling)
        self._initialise()

    def new_cache(
        self, batch_size: int = 1, capacity: int | None = None, ragged: bool = False, cache_kind: str = "float"
    ) -> MLACache:
        """Return an empty cache for this model, whose rows all have one length.

        Raises:
            ValueError: ragged, or numbers kept otherwise than as the model's.
        """
        if ragged or cache_kind != "float":
            raise ValueError(
                f"ragged is {ragged} and cache_kind {cache_kind!r}; a latent cache has rows of one length (prompts of "
                "one length, that is) and keeps floats"
            )
        return MLACache(self.config, self.latent, batch_size, capacity, dtype=self.dtype, device=self.device)

    def new_paged_cache(self, n_blocks: int, block_size: int = 16, cache_kind: str = "float") -> LatentPagedCache:
        """Return a pool of empty blocks of latent vectors and rotary keys.

        Raises:
            ValueError: numbers kept otherwise than as the model's; n_blocks or block_size below 1.
        """
        if cache_kind != "float":
            raise ValueError(f"cache_kind is {cache_kind!r}; a latent cache keeps the model's own numbers: 'float'")
        return LatentPagedCache(self.config, self.latent, n_blocks, block_size, dtype=self.dtype, device=self.device)
