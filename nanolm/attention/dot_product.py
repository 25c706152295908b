"""Attention as mathematics on tensors: no module, no cache.

Vaswani et al. 2017 (attention), Shazeer 2019 (one key/value head), Ainslie et al. 2023 (groups).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from ..kernels.cpu_attention import attends_rows, row_attention
from .masks import causal_mask


def attend(
    q: Float[Tensor, "B N T H"],
    k: Float[Tensor, "B K S H"],
    v: Float[Tensor, "B K S U"],
    mask: Bool[Tensor, "..."] | Float[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B N T U"]:
    """Return softmax(scale · q·kᵀ)·v, causal: the T queries are the last T of the S positions.

    N query heads read K key/value heads, G = N / K queries to each: query head n reads head n // G.

    Args:
        mask: True where a query may see a key, (T, S) or (B, 1, T, S); or numbers to add, 0 there and -inf elsewhere.
            None means causal, and each of the three cases has a cheaper way than a mask: T = S is a prefill, T = 1
            sees everything, else one is made. On a CPU the compiled library (`kernels.cpu_attention`) takes all three.
        scale: None means 1 / √H.
    """
    B, N, T, H = q.shape
    K, S = k.shape[1:3]
    if mask is None and attends_rows(q, k, v):
        return row_attention(q, k, v, scale)
    if T == 1:
        # The G queries of a group read the same keys: as G rows of one head, K and V are read once, not G times.
        q = q.reshape(B, K, N // K, H)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).reshape(B, N, 1, -1)
    if v.shape[-1] != H:
        # Torch has no kernel for groups whose values are shorter than keys: it would copy both for every query head.
        mask = torch.cat([causal_mask(T, S, q.device) if mask is None else mask] * (N // K), dim=-2)
        q = q.reshape(B, K, N // K * T, H)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).reshape(B, N, T, -1)
    if mask is None and T < S:
        mask = causal_mask(T, S, q.device)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=N != K
    )
