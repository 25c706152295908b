"""Multi-head latent attention: what is cached of a token is one short vector that all heads share (DeepSeek-V2 2024).

A layer makes a latent vector c of each token and, when it attends, the keys and values of all N heads from c. Only c
is cached, beside one rotary key: rotation depends on the position and cannot wait behind a product that is made later,
so position travels in R numbers of its own. (No head dimension of the cache: it grows neither with N nor with H.)

In shapes, C is the length of the latent vector, R that of the rotary key, U that of a head's value.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from . import dot_product
from ._require import require_count
from .cache import KVCache
from .config import ModelConfig
from .masks import causal_mask
from .norm import RMSNorm
from .rope import Offset, apply_rope
from .shapes import LatentAttention


def naive_attention(
    q: Float[Tensor, "B N T H"],
    q_rotary: Float[Tensor, "B N T R"],
    latents: Float[Tensor, "B S C"],
    rotary_keys: Float[Tensor, "B S R"],
    up_keys: Float[Tensor, "N H C"],
    up_values: Float[Tensor, "N U C"],
    mask: Bool[Tensor, "T S"] | None = None,
) -> Float[Tensor, "B N T U"]:
    """Return what each head attends to, by the definition: make every head's keys and values, then attend.

    Head n's key at position s is up_keys[n] · latents[s], its value up_values[n] · latents[s]; its score with a query
    is (q · key + q_rotary · rotary_keys[s]) / √(H + R), in which the rotary key is the same for all heads. The keys
    and values of all heads at all S positions exist for a moment: cheap beside many queries, dear beside one.

    Args:
        q, q_rotary: the two parts of each query; the second is already rotated, as are rotary_keys.
        mask: True where a query may see a key. None: causal, the T queries are the last T of the S positions.

    Source: DeepSeek-V2, equations 9 to 18.
    """
    keys = torch.einsum("nhc,bsc->bnsh", up_keys, latents)
    values = torch.einsum("nuc,bsc->bnsu", up_values, latents)
    scores = q @ keys.transpose(-1, -2) + q_rotary @ rotary_keys[:, None].transpose(-1, -2)  # (B, N, T, S)
    return latent_softmax(scores, q.shape[-1] + q_rotary.shape[-1], mask) @ values


def absorbed_attention(
    q: Float[Tensor, "B N T H"],
    q_rotary: Float[Tensor, "B N T R"],
    latents: Float[Tensor, "B S C"],
    rotary_keys: Float[Tensor, "B S R"],
    up_keys: Float[Tensor, "N H C"],
    up_values: Float[Tensor, "N U C"],
    mask: Bool[Tensor, "T S"] | None = None,
    attend: Callable[..., Tensor] = dot_product.attend,
) -> Float[Tensor, "B N T U"]:
    """Return the same as `naive_attention`, and never a key or a value: queries meet the latent vectors themselves.

    q · (up_keys[n] · c) is (up_keys[n]ᵀ · q) · c, so each query is brought to C numbers once, and the scale stays
    1 / √(H + R). The weights then mix latent vectors, and up_values[n] is applied to the mixture: once a query, not
    once a position. In between it is the attention of N queries over one head, multi-query attention: queries
    [up_keys[n]ᵀ · q; q_rotary], keys [c; rotary key], both of C + R numbers, values c. All heads read the same C + R
    numbers a position, and that makes a decode step cheap, which waits for what it reads.

    Args:
        attend: called as attend(queries, keys, values, scale=…), with mask=… too where a mask is given, and with heads
            in the second dimension, (B, N, T, C + R), (B, 1, S, C + R) and (B, 1, S, C); returns (B, N, T, C). A cache
            hands its own over, which knows the positions before these.
        others: as for `naive_attention`.

    Source: DeepSeek-V2, section 2.1.2.
    """
    queries = torch.cat([torch.einsum("bnth,nhc->bntc", q, up_keys), q_rotary], dim=-1)
    keys, values = torch.cat([latents, rotary_keys], dim=-1).unsqueeze(1), latents.unsqueeze(1)
    masked = {} if mask is None else {"mask": mask}
    mixed = attend(queries, keys, values, **masked, scale=1 / math.sqrt(q.shape[-1] + q_rotary.shape[-1]))
    return torch.einsum("bntc,nuc->bntu", mixed, up_values)


def latent_multiplications(T: int, S: int, head_dim: int, latent: LatentAttention) -> tuple[int, int]:
    """Return how many multiplications `naive_attention` and `absorbed_attention` take for each row and head.

    Naive: every position's key and value are made, C · (H + U) a position, and each query meets all S positions, H + R
    for a score and U for a value. Absorbed: every query is brought to C numbers and its mixture back, C · (H + U) a
    query, and it meets all positions with C + R for a score and C for a mixture. What a mask hides is computed too.
    Long prompts on their own favour the first, few queries after a long past the second.

    Raises:
        ValueError: T or S not a whole number, 1 or more.
    """
    require_count(1, T=T, S=S)
    C, R, U = latent.kv_latent_dim, latent.rotary_dim, latent.value_dim
    up = C * (head_dim + U)
    return S * up + T * S * (head_dim + R + U), T * up + T * S * (2 * C + R)


def latent_softmax(
    scores: Float[Tensor, "B N T S"], key_dim: int, mask: Bool[Tensor, "T S"] | None = None
) -> Float[Tensor, "B N T S"]:
    """Return softmax(scores / √key_dim) over what each query may see; no mask means causal, with a past of S - T."""
    if mask is None:
        mask = causal_mask(*scores.shape[-2:], scores.device)
    return (scores / math.sqrt(key_dim)).masked_fill(~mask, -torch.inf).softmax(dim=-1)


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
        end = self.length + latents.shape[1]
        for name, new, store in (("latents", latents, self.latents), ("rotary_keys", rotary_keys, self.rotary_keys)):
            B, _, width = store[layer].shape
            if new.shape != (B, end - self.length, width):
                raise ValueError(
                    f"{name} has shape {tuple(new.shape)}; this cache takes ({B}, {end - self.length}, {width}): "
                    "one vector a token, which all heads share"
                )
        self._need_room(end)
        self.latents[layer][:, self.length : end] = latents.detach()
        self.rotary_keys[layer][:, self.length : end] = rotary_keys.detach()
        return self.latents[layer][:, :end], self.rotary_keys[layer][:, :end]

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


class MLA(nn.Module):
    """One layer's latent attention; takes the place of `Attention` in a model, and an MLACache that of its cache.

    Args:
        config: d_model, n_heads, head_dim (H, the part of a key without position), rope_theta and norm_eps count;
            there are no key/value heads to choose.
        latent: the sizes C, R and U, and the length of the queries' own latent vector, 0 for none.
        layer: its number, from 0.

    Raises:
        ValueError: an odd rotary_dim.
    """

    def __init__(self, config: ModelConfig, latent: LatentAttention, layer: int) -> None:
        super().__init__()
        if latent.rotary_dim % 2:
            raise ValueError(
                f"rotary_dim is {latent.rotary_dim}; rotary positions turn pairs of numbers: it must be even"
            )
        self.layer, self.theta, self.latent = layer, config.rope_theta, latent
        self.n_heads, self.head_dim = config.n_heads, config.head_dim
        D, N, H = config.d_model, config.n_heads, config.head_dim
        C, R, U = latent.kv_latent_dim, latent.rotary_dim, latent.value_dim
        self.q = _projection(D, N * (H + R), latent.q_latent_dim, config.norm_eps)
        self.down = nn.Linear(D, C + R, bias=False)
        self.norm = RMSNorm(C, config.norm_eps)
        self.up = nn.Linear(C, N * (H + U), bias=False)
        self.out = nn.Linear(N * U, D, bias=False)

    def up_projections(self) -> tuple[Float[Tensor, "N H C"], Float[Tensor, "N U C"]]:
        """Return each head's way from the latent vector to its key and to its value: two views of one matrix."""
        heads = self.up.weight.view(self.n_heads, self.head_dim + self.latent.value_dim, self.latent.kv_latent_dim)
        return heads[:, : self.head_dim], heads[:, self.head_dim :]

    def forward(
        self, x: Float[Tensor, "B T D"], cache: MLACache | None = None, offset: Offset = 0
    ) -> Float[Tensor, "B T D"]:
        """Return the attention output of T new positions, which stand where `offset` says, as for `apply_rope`.

        `q` gives for each head H numbers and R to rotate; `down` gives C numbers, which `norm` makes the latent vector,
        and R for the rotary key. Latent vectors after the norm and rotary keys after the rotation are cached (not
        counted: the caller advances), and all cached ones are attended to, in the way that takes fewer multiplications
        (`self.absorbs`). Absorbed, `cache.attend` stores them and attends; else `cache.update` stores them and returns
        all. Without a cache the T positions see each other alone. The heads' results side by side go through `out`.
        """
        B, T, _ = x.shape
        H, R = self.head_dim, self.latent.rotary_dim
        q, q_rotary = self.q(x).view(B, T, self.n_heads, H + R).transpose(1, 2).split([H, R], dim=-1)
        latents, rotary_keys = self.down(x).split([self.latent.kv_latent_dim, R], dim=-1)
        q_rotary = apply_rope(q_rotary, offset, self.theta)
        latents, rotary_keys = self.norm(latents), apply_rope(rotary_keys[:, None], offset, self.theta)[:, 0]
        if self.absorbs(T, cache):
            attend = dot_product.attend if cache is None else partial(cache.attend, self.layer)
            mixed = absorbed_attention(q, q_rotary, latents, rotary_keys, *self.up_projections(), attend=attend)
        else:
            if cache is not None:
                latents, rotary_keys = cache.update(self.layer, latents, rotary_keys)
            mixed = naive_attention(q, q_rotary, latents, rotary_keys, *self.up_projections())  # (B, N, T, U)
        return self.out(mixed.transpose(1, 2).reshape(B, T, -1))

    def absorbs(self, T: int, cache: MLACache | None) -> bool:
        """Return whether absorbed attention is the cheaper way for T positions after the cached ones.

        A cache whose `update` returns no rows, such as that of a pass of many requests, can be absorbed only.
        """
        if cache is not None and not cache.gives_rows:
            return True
        naive, absorbed = latent_multiplications(T, T + (cache.length if cache else 0), self.head_dim, self.latent)
        return absorbed < naive


def _projection(D: int, width: int, through: int, eps: float) -> nn.Module:
    """From D to width, through a normed vector of `through` numbers unless that is 0."""
    if not through:
        return nn.Linear(D, width, bias=False)
    return nn.Sequential(
        nn.Linear(D, through, bias=False), RMSNorm(through, eps), nn.Linear(through, width, bias=False)
    )
