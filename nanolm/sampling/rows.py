"""Many rows of logits, each with rules and randomness of its own: what a serving engine draws in one pass."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from .fast_filters import fast_probs
from .params import SamplingParams
from .rng import Rng, draw_rows

# To sort so few costs less than to find out what need not be sorted.
_SMALL_VOCABULARY = 4096


def sample_rows(
    logits: Float[Tensor, "R V"], rules: Sequence[SamplingParams], rng: Sequence[Rng]
) -> tuple[list[int], list[Tensor | None]]:
    """Return a token for each row, and the distribution (V,) that it was drawn from, None at temperature 0.

    The tokens are those of `sample_next`, row after row; rows with equal rules are done together. What rules say about
    logits (`adjust_logits`) must have been done.
    """
    tokens = [0] * len(rules)
    distributions: list[Tensor | None] = [None] * len(rules)
    groups: dict[SamplingParams, list[int]] = {}
    for row, sampling in enumerate(rules):
        groups.setdefault(sampling, []).append(row)
    for sampling, rows in groups.items():
        mine = logits if len(rows) == len(rules) else logits[rows]  # (rows, V)
        if sampling.temperature == 0:
            drawn, probs = mine.max(-1).indices.tolist(), [None] * len(rows)  # the first among equals
        else:
            probs = rows_probs(mine, sampling).cpu()
            drawn = draw_rows(probs, [rng[row] for row in rows])
        for row, token, distribution in zip(rows, drawn, probs, strict=True):
            tokens[row], distributions[row] = token, distribution
    return tokens, distributions


def rows_probs(logits: Float[Tensor, "n V"], sampling: SamplingParams) -> Float[Tensor, "n V"]:
    """Return `sampling.probs(logits)`; for a large vocabulary by `fast_probs`, which sorts only what may stay."""
    return sampling.probs(logits) if logits.shape[-1] <= _SMALL_VOCABULARY else fast_probs(logits, sampling)
