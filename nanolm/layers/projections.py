"""Products with something behind them: a bias, norms of queries and keys, a limit.

The product itself stays an nn.Linear without bias, a module of its own, so that it can be exchanged for a quantized one
without a word about the rest.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..config import ModelConfig


class BiasedLinear(nn.Module):
    """x · Wᵀ + bias."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... out"]:
        """Return x · Wᵀ + bias."""
        return self.linear(x) + self.bias


class QKVProjection(nn.Module):
    """Queries, keys and values of a position side by side, as `Attention` reads them, normed and held within a limit.

    Attributes:
        bias: None where the family has none.
        q_norm, k_norm: weights of RMSNorm, of H numbers ("head") or of all heads' numbers ("all"); None without norms.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        H = config.head_dim
        self.widths = [config.n_heads * H, config.n_kv_heads * H, config.n_kv_heads * H]
        self.eps, self.clip = config.norm_eps, config.clip_qkv
        self.linear = nn.Linear(config.d_model, sum(self.widths), bias=False)
        self.bias = nn.Parameter(torch.zeros(sum(self.widths))) if config.qkv_bias else None
        sizes = {"": (None, None), "head": (H, H), "all": (self.widths[0], self.widths[1])}[config.qk_norm]
        self.q_norm, self.k_norm = (None if size is None else nn.Parameter(torch.ones(size)) for size in sizes)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T qkv"]:
        """Return queries, keys and values: product, bias, norms of queries and keys, limit, in this order."""
        y = self.linear(x)
        if self.bias is not None:
            y = y + self.bias
        if self.q_norm is not None and self.k_norm is not None:
            q, k, v = y.split(self.widths, dim=-1)
            y = torch.cat([self._normed(q, self.q_norm), self._normed(k, self.k_norm), v], dim=-1)
        return y if self.clip is None else y.clamp(-self.clip, self.clip)

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        heads = x.unflatten(-1, (-1, len(weight)))  # one vector of all heads, or one a head
        return F.rms_norm(heads, weight.shape, weight, self.eps).flatten(-2)


def linear(in_features: int, out_features: int, bias: bool) -> nn.Module:
    """Return a product, with a bias behind it or without."""
    return BiasedLinear(in_features, out_features) if bias else nn.Linear(in_features, out_features, bias=False)


def qkv_projection(config: ModelConfig) -> nn.Module:
    """Return what makes queries, keys and values: a product, and what the family has behind it."""
    if config.qkv_bias or config.qk_norm or config.clip_qkv is not None:
        return QKVProjection(config)
    rows = (config.n_heads + 2 * config.n_kv_heads) * config.head_dim
    # One matrix for queries, keys and values: at batch 1 a pass is bound by the number of operations.
    return nn.Linear(config.d_model, rows, bias=False)
