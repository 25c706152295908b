"""Multi-head latent attention: what is cached of a token is one short vector that all heads share (DeepSeek-V2 2024).

A layer makes a latent vector c of each token and, when it attends, the keys and values of all N heads from c. Only c
is cached, beside one rotary key: rotation depends on the position and cannot wait behind a product that is made later,
so position travels in R numbers of its own. (No head dimension of the cache: it grows neither with N nor with H.)

In shapes, C is the length of the latent vector, R that of the rotary key, U that of a head's value.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .._require import require_count
from ..attention import dot_product
from ..attention.masks import causal_mask
from ..budget.shapes import LatentAttention

from course import NotYetWritten


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
    and values of all heads at all S positions exist for a moment: cheap beside many queries, expensive beside one.

    Args:
        q, q_rotary: the two parts of each query; the second is already rotated, as are rotary_keys.
        mask: True where a query may see a key. None: causal, the T queries are the last T of the S positions.

    Source: DeepSeek-V2, equations 9 to 18.
    """
    raise NotYetWritten(
        "exercise 9.7 naive_attention is not written yet: read "
        "notebooks/week09_smaller_cache/week09_smaller_cache.ipynb, write it in exercises/mla/attention.py, then "
        "run: NANOLM_IMPL=exercises python -m pytest tests/mla/test_mla.py --exercise naive_attention"
    )


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
    raise NotYetWritten(
        "exercise 9.8 absorbed_attention is not written yet: read "
        "notebooks/week09_smaller_cache/week09_smaller_cache.ipynb, write it in exercises/mla/attention.py, then "
        "run: NANOLM_IMPL=exercises python -m pytest tests/mla/test_mla.py --exercise absorbed_attention"
    )


def latent_multiplications(T: int, S: int, head_dim: int, latent: LatentAttention) -> tuple[int, int]:
    """Return how many multiplications `naive_attention` and `absorbed_attention` take for each row and head.

    Naive: every position's key and value are made, C · (H + U) a position, and each query meets all S positions, H + R
    for a score and U for a value. Absorbed: every query is brought to C numbers and its mixture back, C · (H + U) a
    query, and it meets all positions with C + R for a score and C for a mixture. What a mask hides is computed too.
    Long prompts on their own favour the first, few queries after a long past the second.

    Raises:
        ValueError: T or S not a whole number, 1 or more.
    """
    raise NotYetWritten(
        "exercise 9.9 latent_multiplications is not written yet: read "
        "notebooks/week09_smaller_cache/week09_smaller_cache.ipynb, write it in exercises/mla/attention.py, then "
        "run: NANOLM_IMPL=exercises python -m pytest tests/mla/test_mla.py --exercise latent_multiplications"
    )


def latent_softmax(
    scores: Float[Tensor, "B N T S"], key_dim: int, mask: Bool[Tensor, "T S"] | None = None
) -> Float[Tensor, "B N T S"]:
    """Return softmax(scores / √key_dim) over what each query may see; no mask means causal, with a past of S - T."""
    if mask is None:
        T, S = scores.shape[-2:]
        mask = causal_mask(T, S, scores.device)
    return (scores / math.sqrt(key_dim)).masked_fill(~mask, -torch.inf).softmax(dim=-1)
