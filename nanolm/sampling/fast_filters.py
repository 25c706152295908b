"""The same filters without sorting the vocabulary: a few hundred tokens decide, out of a hundred thousand.

The results are those of `filters.py`, the tie rule included: whoever reads the lessons reads that file, whoever runs
many requests runs this one.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .filters import _check_finite, min_p_filter, temperature_probs, top_p_filter
from .params import SamplingParams


def fast_probs(logits: Float[Tensor, "n V"], sampling: SamplingParams) -> Float[Tensor, "n V"]:
    """Return `sampling.probs(logits)`: the same tokens kept, probabilities equal up to rounding, float64.

    Raises:
        ValueError: what `temperature_probs` refuses.
    """
    if sampling.temperature == 0:
        return temperature_probs(logits, 0.0)  # one token is certain, and no filter changes that
    probs = _temperature_probs(logits, sampling.temperature)
    if sampling.top_k is not None:
        probs = _top_k(probs, sampling.top_k)
    if sampling.top_p is not None:
        probs = _top_p(probs, sampling.top_p)
    if sampling.min_p is not None:
        probs = min_p_filter(probs, sampling.min_p)
    return probs


def top_ids(values: Float[Tensor, "n V"], k: int) -> Int[Tensor, "n k"]:
    """Return the ids of the k largest of each row, the largest first and the lower id first among equals.

    With k at or above V all of them.
    """
    if k >= values.shape[-1]:
        return values.argsort(dim=-1, descending=True, stable=True)
    best = values.topk(k + 1, dim=-1)
    ids, border, next_one = best.indices[:, :k], best.values[:, k - 1 : k], best.values[:, k]
    # topk does not promise which of equals it takes. Those above the border are certain; the places left go to the
    # lowest ids among all that equal it.
    for row in (border[:, 0] == next_one).nonzero()[:, 0].tolist():
        n_above = int((best.values[row] > border[row]).sum())
        ids[row, n_above:] = (values[row] == border[row]).nonzero()[: k - n_above, 0]
    ids = ids.sort(dim=-1).values
    order = values.gather(-1, ids).argsort(dim=-1, descending=True, stable=True)
    return ids.gather(-1, order)


def _temperature_probs(logits: Tensor, temperature: float) -> Tensor:
    """`temperature_probs` above 0, in as few passes over memory as there can be."""
    largest = logits.amax(dim=-1, keepdim=True).double()
    _check_finite(largest)
    return torch.softmax(logits.double().sub(largest).div_(temperature), dim=-1)


def _top_k(probs: Float[Tensor, "n V"], k: int) -> Float[Tensor, "n V"]:
    """`top_k_filter(probs, k)`, by a partial sort."""
    if k >= probs.shape[-1]:
        return probs
    ids = top_ids(probs, k)
    kept = torch.zeros_like(probs).scatter_(-1, ids, probs.gather(-1, ids))
    return kept.div_(kept.sum(dim=-1, keepdim=True))


def _top_p(probs: Float[Tensor, "n V"], p: float) -> Float[Tensor, "n V"]:
    """`top_p_filter(probs, p)` of float64 probabilities that sum to 1; only tokens that can stay are sorted."""
    if p == 1:
        return probs / probs.sum(dim=-1, keepdim=True)
    kept = torch.zeros_like(probs)
    for row, out in zip(probs, kept, strict=True):
        ids = _octaves_that_reach(row, p)
        out[ids] = top_p_filter(row[ids], p)
    return kept


def _octaves_that_reach(probs: Tensor, p: float) -> Tensor:
    """The ids, in order, of all tokens from the likeliest down to a power of two, such that their total reaches p.

    The totals per octave, from 1 to 1/2, from 1/2 to 1/4 and so on, need no order among the tokens.
    """
    octaves = probs.view(torch.int64) >> 52  # the exponent bits of a float64 without a sign; 0 and denormals are 0
    totals = torch.bincount(octaves, weights=probs).flip(0).cumsum(0)
    n_octaves = int((totals < p).sum()) + 1
    return (octaves >= len(totals) - n_octaves).nonzero()[:, 0]
