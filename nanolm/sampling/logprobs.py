"""What the model itself thought of the tokens: log-probabilities, to report beside them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from .fast_filters import top_ids


class TokenLogprob(NamedTuple):
    """One token and its natural log-probability, with the likeliest tokens at its place, the likeliest first.

    `top` holds pairs (token, log-probability); the chosen token is among them only if it is one of the likeliest.
    """

    token: int
    logprob: float
    top: list[tuple[int, float]]


def token_logprobs(logits: Float[Tensor, "n V"], tokens: Sequence[int], n_top: int) -> list[TokenLogprob]:
    """Return a TokenLogprob for each row: log-softmax of the logits at its token and at the n_top best.

    Hand it the model's own logits, from before any rule: temperature, filters, biases and penalties are no part of
    what is reported. Among equals the lower ids come first. Computed in float64.

    Args:
        tokens: the chosen token of each row.
        n_top: how many of the likeliest to report, 0 or more; no more than V are.

    Raises:
        ValueError: not one token a row, a token outside the vocabulary, or n_top negative.
    """
    n, V = logits.shape
    if len(tokens) != n:
        raise ValueError(f"tokens has {len(tokens)} entries for {n} rows of logits; each row has one")
    if n_top < 0:
        raise ValueError(f"n_top is {n_top}; it must be 0 or more")
    outside = next((token for token in tokens if not 0 <= token < V), None)
    if outside is not None:
        raise ValueError(f"tokens holds {outside}; ids run from 0 to {V - 1}")
    return [_of_row(row, token, n_top) for row, token in zip(logits, tokens, strict=True)]


def _of_row(logits: Tensor, token: int, n_top: int) -> TokenLogprob:
    """Log-softmax of one row, (V,), at the places that are asked for: all of it is never made."""
    total = torch.logsumexp(logits.double(), dim=-1)
    best = top_ids(logits[None], n_top)[0] if n_top else torch.empty(0, dtype=torch.long, device=logits.device)
    own, *top = (logits[[token, *best.tolist()]].double() - total).tolist()
    return TokenLogprob(token, own, list(zip(best.tolist(), top, strict=True)))
