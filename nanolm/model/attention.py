"""One layer's attention: project, rotate, let the cache attend, project back."""

from jaxtyping import Float
from torch import Tensor, nn

from ..attention.dot_product import attend
from ..attention.rope import Offset, apply_rope
from ..cache.attending import AttendingCache
from ..config import ModelConfig
from ..layers.projections import linear, qkv_projection


class Attention(nn.Module):
    """Grouped-query attention: N query heads, and K key/value heads that are cached."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.theta = layer, config.rope_theta
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.qkv = qkv_projection(config)
        self.out = linear(config.n_heads * config.head_dim, config.d_model, config.out_bias)

    def forward(
        self, x: Float[Tensor, "B T D"], cache: AttendingCache | None = None, offset: Offset = 0
    ) -> Float[Tensor, "B T D"]:
        """Return the attention output of T new positions.

        `qkv` gives the heads of a position one after the other, H numbers each: N queries, K keys, K values.
        Queries and keys are rotated by their own positions (`apply_rope` with `offset` and `self.theta`), values are
        not. With a cache, `cache.attend(self.layer, q, k, v)` stores the new keys and values and returns what the
        queries see of all, (B, N, T, H); without one the T positions see each other alone (`attend`). The heads of a
        position go side by side through `out`. The cache is not advanced: the caller does that, once a pass.

        Args:
            offset: where the new positions stand, as for `apply_rope`; it is handed on as it is.
        """
        B, T, _ = x.shape
        N, K = self.n_heads, self.n_kv_heads
        heads = self.qkv(x).view(B, T, N + 2 * K, self.head_dim).transpose(1, 2)  # (B, N + 2K, T, H)
        rotated = apply_rope(heads[:, : N + K], offset, self.theta)
        q, k, v = rotated[:, :N], rotated[:, N:], heads[:, N + K :]
        attended = attend(q, k, v) if cache is None else cache.attend(self.layer, q, k, v)
        return self.out(attended.transpose(1, 2).reshape(B, T, -1))
