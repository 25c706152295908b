"""Rules that change logits before the temperature does: bias, minimum length, and penalties on what is there already.

They are the only rules that look at the text. All is computed in float64, so that a model's short numbers make no ties
that the rules did not ask for, and the same text gets the same logits wherever it is written.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from .params import SamplingParams


def adjust_logits(
    logits: Float[Tensor, "V"], sampling: SamplingParams, text: Sequence[int], n_prompt: int, end_tokens: Sequence[int]
) -> Float[Tensor, "V"]:
    """Return the logits of the token after `text` with all rules of `sampling` that come before the temperature.

    In this order: the biases are added; tokens that end the text get -inf while the answer has fewer than
    min_new_tokens tokens; tokens of the text get the repetition penalty; tokens of the answer the presence and the
    frequency penalty. The argument is left as it is, the result is float64.

    Args:
        text: prompt and answer so far.
        n_prompt: tokens of the prompt, the first ones of the text.
        end_tokens: ids that end the text, as `sampling.ends` gives them.

    Raises:
        ValueError: a biased or end token outside the vocabulary, or rules that leave no token.
    """
    return adjust_rows(logits[None], sampling, text, n_prompt, end_tokens, ())[0]


def adjust_rows(
    logits: Float[Tensor, "n V"],
    sampling: SamplingParams,
    text: Sequence[int],
    n_prompt: int,
    end_tokens: Sequence[int],
    drafted: Sequence[int],
) -> Float[Tensor, "n V"]:
    """Return `adjust_logits` of n rows, of which row i stands behind text + drafted[:i], as speculation needs it.

    Args:
        drafted: n - 1 tokens or more.

    Raises:
        ValueError: what `adjust_logits` refuses.
    """
    n, V = logits.shape
    check_vocabulary(sampling, V, end_tokens)
    logits = logits.to(torch.float64, copy=True)
    for token, bias in dict(sampling.logit_bias).items():
        logits[:, token] += bias
    n_short = sampling.min_new_tokens - (len(text) - n_prompt)  # so many rows are below the minimum length
    if n_short > 0 and end_tokens:
        logits[:n_short, list(end_tokens)] = -math.inf
    if sampling.repetition_penalty != 1:
        ids, counts = _occurrences(text, drafted[: n - 1], V)
        _penalise_repetition(logits, ids, counts, sampling.repetition_penalty)
    if sampling.presence_penalty or sampling.frequency_penalty:
        ids, counts = _occurrences(text[n_prompt:], drafted[: n - 1], V)
        counts = counts.double()
        penalty = sampling.presence_penalty * (counts > 0).double() + sampling.frequency_penalty * counts
        logits[:, ids.to(logits.device)] -= penalty.to(logits)
    _check_some_left(logits)
    return logits


def check_vocabulary(sampling: SamplingParams, vocab_size: int, end_tokens: Sequence[int]) -> None:
    """Raise a ValueError unless the rules can be followed with so many tokens.

    A rule may not name a token outside the vocabulary, and biases of -inf, with the end tokens forbidden while a
    minimum length asks for it, must leave some token. What passes once passes for the whole text, unless the model
    itself gives -inf.

    Args:
        end_tokens: ids that end the text, as `sampling.ends` gives them.
    """
    biases = dict(sampling.logit_bias)
    for name, tokens in (
        ("logit_bias", biases),
        ("stop_token_ids", sampling.stop_token_ids),
        ("end_tokens", end_tokens),
    ):
        outside = next((token for token in tokens if token >= vocab_size), None)
        if outside is not None:
            raise ValueError(f"{name} names token {outside}; ids run from 0 to {vocab_size - 1}")
    forbidden = {token for token, bias in biases.items() if bias == -math.inf}
    if sampling.min_new_tokens > 0:
        forbidden.update(end_tokens)
    if len(forbidden) == vocab_size:
        raise ValueError(f"logit_bias and min_new_tokens forbid all {vocab_size} tokens; at least one must be left")


def _occurrences(text: Sequence[int], drafted: Sequence[int], V: int) -> tuple[Int[Tensor, "m"], Int[Tensor, "n m"]]:
    """The m tokens that occur, and how often each does in text + drafted[:i], for i from 0 to len(drafted)."""
    # numpy reads a long list ten times as fast as torch does.
    written, extra = (torch.from_numpy(np.array(tokens, dtype=np.int64)) for tokens in (text, drafted))
    before = torch.bincount(written, minlength=V)
    ids = (before + torch.bincount(extra, minlength=V)).nonzero()[:, 0]
    counts = before[ids].repeat(len(extra) + 1, 1)
    counts[1:] += (extra[:, None] == ids).cumsum(0)
    return ids, counts


def _penalise_repetition(logits: Tensor, ids: Tensor, counts: Tensor, penalty: float) -> None:
    """Make the logits of tokens that occur smaller where penalty > 1: nearer to 0 if positive, further if negative."""
    ids, occurs = ids.to(logits.device), (counts > 0).to(logits.device)
    before = logits[:, ids]  # (n, m)
    after = torch.where(before > 0, before / penalty, before * penalty)
    logits[:, ids] = torch.where(occurs, after, before)


def _check_some_left(logits: Tensor) -> None:
    if (logits.amax(-1) == -math.inf).any():
        raise ValueError(
            "logits have no token left: the model gives -inf to all that logit_bias and min_new_tokens do not forbid"
        )
