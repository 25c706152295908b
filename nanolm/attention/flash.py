"""Attention in tiles: exact, and never the T × S matrix of scores (Dao 2022, "FlashAttention").

What makes it possible is a softmax that takes its scores in pieces, in any number and any order (Milakov and
Gimelshein 2018, "Online normalizer calculation for softmax"). A few numbers for each query are the whole state, and
two states merge into one, so the pieces may also be worked on side by side. The cache stays as large as it was.
"""

import math
from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .._require import require_count, require_positive


def score_matrix_bytes(n_tokens: int, n_heads: int = 1, batch_size: int = 1, bits: float = 16) -> int:
    """Return the bytes of all scores of a prefill of `n_tokens`, one for each query and key of each head, rounded up.

    A causal mask leaves the matrix square: what it hides is computed and stored too.

    Raises:
        ValueError: a count that is not a whole number above 0; bits not above 0.

    Source: Dao 2022, section 2.2.
    """
    require_count(1, n_tokens=n_tokens, n_heads=n_heads, batch_size=batch_size)
    require_positive(bits=bits)
    return math.ceil(batch_size * n_heads * n_tokens**2 * bits / 8)


class SoftmaxState(NamedTuple):
    """The softmax of each query over the keys it has met so far, not yet divided.

    Attributes:
        maximum: largest score met, (*rows, 1); -inf where there was none.
        total: sum of exp(score - maximum), (*rows, 1).
        weighted: sum of exp(score - maximum) · value, (*rows, H).
    """

    maximum: Float[Tensor, "*rows 1"]
    total: Float[Tensor, "*rows 1"]
    weighted: Float[Tensor, "*rows H"]

    @classmethod
    def empty(cls, q: Float[Tensor, "*rows H"]) -> "SoftmaxState":
        """Return the state of queries that have met no key, with q's shape, dtype and device."""
        one_each = q[..., :1]
        return cls(torch.full_like(one_each, -torch.inf), torch.zeros_like(one_each), torch.zeros_like(q))

    def result(self) -> Float[Tensor, "*rows H"]:
        """Return the mean of the values under the softmax; 0 for a query that has met no key."""
        return self.weighted / self.total.masked_fill(self.total == 0, 1)


def online_softmax(
    state: SoftmaxState, scores: Float[Tensor, "*rows J"], values: Float[Tensor, "*batch J H"]
) -> SoftmaxState:
    """Return the state after J more keys; whatever the pieces were, `result` is that of one softmax over all of them.

    Sums are kept relative to the largest score met, so that no exponential overflows: where a new score is larger,
    the old sums shrink by exp(old maximum - new maximum). A score of -inf hides its key: it has no weight, and its
    value no say, be it NaN (`weighted_sum` sees to that). A query that has met hidden keys only keeps a maximum of
    -inf and sums of 0. The state handed in is not changed.

    Args:
        scores: of the new keys, already scaled and masked, J at least 1.
        values: of the new keys; one set of them for all rows of a batch.

    Source: Milakov and Gimelshein 2018, algorithm 3.
    """
    maximum = torch.maximum(state.maximum, scores.amax(dim=-1, keepdim=True))
    shift = maximum.masked_fill(maximum == -torch.inf, 0)  # -inf - -inf would be NaN
    correction, weights = (state.maximum - shift).exp(), (scores - shift).exp()
    total = state.total * correction + weights.sum(dim=-1, keepdim=True)
    return SoftmaxState(maximum, total, state.weighted * correction + weighted_sum(weights, values))


def merge(one: SoftmaxState, other: SoftmaxState) -> SoftmaxState:
    """Return the state of queries that have met the keys of both states, which share none.

    The order does not matter, nor does it matter how many states are merged pair by pair. A state that has met no key
    (maximum -inf) changes nothing, and two such give a third.

    Source: Milakov and Gimelshein 2018, section 3.1.
    """
    maximum = torch.maximum(one.maximum, other.maximum)
    shift = maximum.masked_fill(maximum == -torch.inf, 0)
    first, second = (one.maximum - shift).exp(), (other.maximum - shift).exp()
    total = one.total * first + other.total * second
    return SoftmaxState(maximum, total, one.weighted * first + other.weighted * second)


def weighted_sum(weights: Float[Tensor, "*rows J"], values: Float[Tensor, "*batch J H"]) -> Float[Tensor, "*rows H"]:
    """Return weights @ values, in which a weight of 0 hides its value: 0 · NaN would be NaN.

    A value that is NaN or infinite, and not hidden, makes the sum NaN.
    """
    finite = values.isfinite()
    if finite.all():
        return weights @ values
    touched = (weights > 0).to(weights) @ (~finite).to(weights)
    return (weights @ values.masked_fill(~finite, 0)).masked_fill(touched > 0, torch.nan)


def flash_attention(
    q: Float[Tensor, "B N T H"], k: Float[Tensor, "B K S H"], v: Float[Tensor, "B K S H"], tile: int = 128
) -> Float[Tensor, "B N T H"]:
    """Return softmax(q·kᵀ / √H)·v, causal, tile by tile: the T queries are the last T of the S positions.

    Queries are taken `tile` positions at a time, and for each the keys `tile` at a time, from the first up to the last
    that a query of the tile may see; keys behind that are not read. T and S need not be multiples of `tile`. No tensor
    has both T and S as dimensions. The N / K query heads of a group meet each tile of keys and values as rows of one
    matrix, so that it is read once for all of them. Sums are kept in at least 32 bits and the result has q's number
    type. A key that a query may not see has no say in it, be it NaN.

    Raises:
        ValueError: shapes that do not fit, N no multiple of K, fewer keys than queries; tile not a whole number, 1 or
            more.

    Source: Dao 2022, algorithm 1, with the loops exchanged as in Dao 2023 ("FlashAttention-2", algorithm 1).
    """
    require_count(1, tile=tile)
    require_heads(q, k, v)
    B, N, T, H = q.shape
    K, S = k.shape[1:3]
    wide, G = torch.promote_types(q.dtype, torch.float32), N // K
    grouped, out = q.reshape(B, K, G, T, H), q.new_empty(B, K, G, T, H)
    for first_query in range(0, T, tile):
        rows = grouped[:, :, :, first_query : first_query + tile]
        t, start = rows.shape[3], S - T + first_query  # queries of this tile, and the position of the first
        rows = rows.reshape(B, K, G * t, H).to(wide) / math.sqrt(H)
        positions = torch.arange(start, start + t, device=q.device).repeat(G)[:, None]  # (G·t, 1)
        state = SoftmaxState.empty(rows)
        for first in range(0, start + t, tile):
            last = min(first + tile, start + t)
            scores = rows @ k[:, :, first:last].to(wide).transpose(-1, -2)  # (B, K, G·t, last - first)
            hidden = torch.arange(first, last, device=q.device) > positions
            state = online_softmax(state, scores.masked_fill(hidden, -torch.inf), v[:, :, first:last].to(wide))
        out[:, :, :, first_query : first_query + t] = state.result().view(B, K, G, t, H).to(q.dtype)
    return out.view(B, N, T, H)


def split_k_attention(
    q: Float[Tensor, "B N 1 H"],
    k: Float[Tensor, "B K S H"],
    v: Float[Tensor, "B K S H"],
    n_splits: int,
    lengths: Int[Tensor, "B"] | None = None,
) -> Float[Tensor, "B N 1 H"]:
    """Return the attention of one new token a row, its keys cut into `n_splits` ranges that need nothing of each other.

    One query offers a machine little to do side by side but the keys that it meets. Each range of about S / n_splits
    positions yields a state of its own, and the states are merged. There are fewer ranges where S is small: none is
    empty.

    Args:
        lengths: how many positions of each row are filled, 0 to S; what lies behind them is not seen, be it NaN, and a
            row without any gives 0. None: all S.

    Raises:
        ValueError: shapes that do not fit, more than one query, N no multiple of K; n_splits not a whole number, 1 or
            more.

    Source: Dao 2023 ("Flash-Decoding for long-context inference").
    """
    require_count(1, n_splits=n_splits)
    require_heads(q, k, v)
    B, N, T, H = q.shape
    K, S = k.shape[1:3]
    if T != 1:
        raise ValueError(f"q has {T} queries; the keys of a decode step, which has one, are what is split")
    wide, size = torch.promote_types(q.dtype, torch.float32), math.ceil(S / n_splits)
    rows = q.reshape(B, K, N // K, H).to(wide) / math.sqrt(H)
    filled = torch.full((B,), S, device=q.device) if lengths is None else lengths
    states = []
    for first in range(0, S, size):
        scores = rows @ k[:, :, first : first + size].to(wide).transpose(-1, -2)  # (B, K, G, size)
        hidden = torch.arange(first, first + scores.shape[-1], device=q.device) >= filled[:, None, None, None]
        scores = scores.masked_fill(hidden, -torch.inf)
        states.append(online_softmax(SoftmaxState.empty(rows), scores, v[:, :, first : first + size].to(wide)))
    return reduce(merge, states).result().view(B, N, 1, H).to(q.dtype)


def require_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise a ValueError unless q is (B, N, T, H), k and v are (B, K, S, H), N a multiple of K, and T at most S."""
    B, N, T, H = q.shape
    K, S = k.shape[1:3]
    if k.shape != (B, K, S, H) or v.shape != k.shape:
        raise ValueError(
            f"k has shape {tuple(k.shape)} and v {tuple(v.shape)}; both must be (B, K, S, H) with the B and H of q, "
            f"{tuple(q.shape)}"
        )
    if N % K:
        raise ValueError(f"q has {N} heads and k {K}; query heads share key heads evenly, so N must be a multiple of K")
    if T > S:
        raise ValueError(f"q has {T} positions and k {S}; the queries are the last T of S positions")
