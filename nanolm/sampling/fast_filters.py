"""The same filters without sorting the vocabulary: a few hundred tokens decide, out of a hundred thousand.

The results are those of `filters.py`, the tie rule included: whoever reads the lessons reads that file, whoever runs
many requests runs this one.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .filters import check_finite, min_p_filter, temperature_probs, top_p_filter
from .params import SamplingParams

# Probabilities worked on at once on a CPU: in its own cache they are several times faster than in fresh memory.
_AT_ONCE = 1 << 17


def fast_probs(logits: Float[Tensor, "n V"], sampling: SamplingParams) -> Float[Tensor, "n V"]:
    """Return `sampling.probs(logits)`: the same tokens kept, probabilities equal up to rounding, float64.

    Raises:
        ValueError: what `temperature_probs` refuses.
    """
    if sampling.temperature == 0:
        return temperature_probs(logits, 0.0)  # one token is certain, and no filter changes that
    n, V = logits.shape
    largest = logits.amax(dim=-1, keepdim=True).double()
    check_finite(largest)
    kept = torch.zeros(n, V, dtype=torch.float64, device=logits.device)
    step = n if logits.is_cuda else max(1, _AT_ONCE // V)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        exponents = logits[rows].double().sub(largest[rows]).div_(sampling.temperature)
        _filter(torch.softmax(exponents, dim=-1), sampling, kept[rows])
    return kept


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


def _filter(probs: Tensor, sampling: SamplingParams, kept: Tensor) -> None:
    """Write into `kept`, all 0, what the filters leave of probs, both (n, V).

    Once few tokens are left the plain filters do the rest, on these alone: they are in the order of their ids, so that
    equals stay as they were.
    """
    if sampling.top_k is not None and sampling.top_k < probs.shape[-1]:
        ids = top_ids(probs, sampling.top_k).sort(dim=-1).values
        few = probs.gather(-1, ids)
        kept.scatter_(-1, ids, _plain(few / few.sum(dim=-1, keepdim=True), sampling))
    elif sampling.top_p is not None and sampling.top_p < 1:
        for row, out in zip(probs, kept, strict=True):
            ids = _octaves_that_reach(row, sampling.top_p)
            out[ids] = _plain(row[ids], sampling)
    else:
        kept.copy_(probs if sampling.min_p is None else min_p_filter(probs, sampling.min_p))


def _plain(probs: Tensor, sampling: SamplingParams) -> Tensor:
    """Top-p and min-p, as the lessons write them."""
    if sampling.top_p is not None:
        probs = top_p_filter(probs, sampling.top_p)
    return probs if sampling.min_p is None else min_p_filter(probs, sampling.min_p)


def _octaves_that_reach(probs: Tensor, p: float) -> Tensor:
    """The ids, in order, of all tokens of a row from the likeliest down to a power of two, so that they total p.

    The totals per octave, from 1 to 1/2, from 1/2 to 1/4 and so on, need no order among the tokens.
    """
    octaves = probs.view(torch.int64) >> 52  # the exponent bits of a float64 without a sign; 0 and denormals are 0
    totals = torch.bincount(octaves, weights=probs).flip(0).cumsum(0)
    n_octaves = int((totals < p).sum()) + 1
    return (octaves >= len(totals) - n_octaves).nonzero()[:, 0]
