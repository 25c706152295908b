"""Grouped-query attention: N query heads read K key/value heads, G = N / K queries to each.

Vaswani et al. 2017 (attention), Shazeer 2019 (one key/value head), Ainslie et al. 2023 (groups).
"""

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from .cache import KVCache, causal_mask
from .config import ModelConfig
from .rope import apply_rope


def attend(
    q: Float[Tensor, "B N T H"],
    k: Float[Tensor, "B K S H"],
    v: Float[Tensor, "B K S H"],
    mask: Bool[Tensor, "..."] | Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "B N T H"]:
    """Return softmax(q·kᵀ / √H)·v, causal: the T queries are the last T of the S positions.

    Args:
        mask: True where a query may see a key, (T, S) or (B, 1, T, S); or numbers to add, 0 there and -inf elsewhere.
            None means causal, and each of the three cases has a cheaper way than a mask: T = S is a prefill, T = 1
            sees everything, else one is made.
    """
    B, N, T, H = q.shape
    K, S = k.shape[1:3]
    if T == 1:
        # The G queries of a group read the same keys: as G rows of one head, K and V are read once, not G times.
        q = q.reshape(B, K, N // K, H)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).reshape(B, N, 1, H)
    if mask is None and T < S:
        mask = causal_mask(T, S, q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=N != K)


class Attention(nn.Module):
    """One layer's attention: project, rotate, cache, attend, project back."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.theta = layer, config.rope_theta
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        rows = (config.n_heads + 2 * config.n_kv_heads) * config.head_dim
        # One matrix for queries, keys and values: at batch 1 a pass is bound by the number of operations.
        self.qkv = nn.Linear(config.d_model, rows, bias=False)
        self.out = nn.Linear(config.n_heads * config.head_dim, config.d_model, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        cache: KVCache | None = None,
        offset: int | Tensor = 0,
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the attention output of T new positions.

        `qkv` gives the heads of a position one after the other, H numbers each: N queries, K keys, K values.
        Queries and keys are rotated by their own positions, which start at `offset`; keys are cached *after* the
        rotation. With a cache the new keys and values are written to it (not counted: the caller advances it) and
        all cached ones are attended to; without one, the T positions see each other alone.

        Args:
            offset: tokens before this pass, as for `apply_rope`.
            mask: as for `attend`.
        """
        B, T, _ = x.shape
        N, K = self.n_heads, self.n_kv_heads
        heads = self.qkv(x).view(B, T, N + 2 * K, self.head_dim).transpose(1, 2)  # (B, N + 2K, T, H)
        rotated = apply_rope(heads[:, : N + K], offset, self.theta)
        q, k, v = rotated[:, :N], rotated[:, N:], heads[:, N + K :]
        if cache is not None:
            k, v = cache.update(self.layer, k, v)
        return self.out(attend(q, k, v, mask).transpose(1, 2).reshape(B, T, -1))
