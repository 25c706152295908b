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
    logprobs = torch.log_softmax(logits.double(), dim=-1)
    chosen = logprobs[range(n), list(tokens)].tolist()
    if not n_top:
        return [TokenLogprob(token, own, []) for token, own in zip(tokens, chosen, strict=True)]
    best = top_ids(logprobs, n_top)
    pairs = zip(best.tolist(), logprobs.gather(-1, best).tolist(), strict=True)
    tops = [list(zip(ids, values, strict=True)) for ids, values in pairs]
    return [TokenLogprob(*each) for each in zip(tokens, chosen, tops, strict=True)]
