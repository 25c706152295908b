"""Products of many row groups with a matrix each, in one go: the kernel of a mixture of experts.

P rows, sorted by expert; E experts, of which some may have no row. On a GPU the number of rows of each expert is known
to the device alone, and a loop over experts would have to wait for it.
"""

from itertools import pairwise

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from .checks import require_alike, require_dims, require_indices, require_one_device
from .choice import Backend, computes

MOST_EXPERTS = 4096  # whose offsets a program can look at all at once


def grouped_matmul(
    x: Float[Tensor, "P D"],
    weights: Float[Tensor, "E F D"],
    offsets: Int[Tensor, "bounds"],
    backend: Backend | None = None,
    check: bool | None = None,
) -> Float[Tensor, "P F"]:
    """Return x[p] · weights[e]ᵀ for every row p, where e is the expert with offsets[e] ≤ p < offsets[e + 1].

    The torch path takes one product for each expert that has rows, and reads the offsets on the host. Triton's kernel
    reads them on the device, reads the weights of no other expert, and sums in float32.

    Args:
        x: rows sorted by expert.
        weights: one (F, D) matrix an expert, as F.linear takes it.
        offsets: E + 1 numbers, where the rows of each expert begin, and at last P.
        backend: who computes; None leaves it to `use`.
        check: look at the numbers in offsets (`check_offsets`). None: on a CPU yes, on a GPU no, where the host would
            have to wait for them. Unchecked, wrong offsets leave rows without a result, or read any memory there is.

    Raises:
        ValueError: shapes that do not fit; different number types or devices; where checked, what `check_offsets`
            refuses.
        KernelUnavailable: "triton" was chosen and cannot compute this.

    Source: Gale 2022 ("MegaBlocks"), section 4.
    """
    require_dims(2, "(P, D)", x=x)
    require_dims(3, "(E, F, D)", weights=weights)
    (P, D), (E, _, _) = x.shape, weights.shape
    if weights.shape[2] != D:
        raise ValueError(f"weights has shape {tuple(weights.shape)}; it must be (E, F, D) with x's D = {D}")
    if offsets.shape != (E + 1,):
        raise ValueError(f"offsets has shape {tuple(offsets.shape)}; {E} experts need ({E + 1},)")
    require_alike(x=x, weights=weights)
    require_indices(offsets=offsets)
    require_one_device(x=x, offsets=offsets)
    if check or (check is None and not offsets.is_cuda):
        check_offsets(offsets, P)
    too_many = f"there are {E} experts, and it takes up to {MOST_EXPERTS}" if E > MOST_EXPERTS else None
    if x.numel() and weights.numel() and computes(backend, too_many, x=x, weights=weights, offsets=offsets):
        from .triton_grouped import grouped_product

        return grouped_product(x, weights, offsets)
    return _by_loop(x, weights, offsets.tolist())


def check_offsets(offsets: Int[Tensor, "bounds"], P: int) -> None:
    """Raise a ValueError unless the offsets run from 0 to P and never fall."""
    bounds = offsets.tolist()
    if bounds[0] != 0 or bounds[-1] != P:
        raise ValueError(f"offsets runs from {bounds[0]} to {bounds[-1]}; it must run from 0 to P = {P}")
    falls = [i for i, (one, following) in enumerate(pairwise(bounds)) if following < one]
    if falls:
        i = falls[0]
        raise ValueError(f"offsets falls from {bounds[i]} to {bounds[i + 1]} at {i}; an expert has 0 rows or more")


def _by_loop(x: Tensor, weights: Tensor, bounds: list[int]) -> Tensor:
    out = x.new_empty(len(x), weights.shape[1])
    for expert, (first, last) in enumerate(pairwise(bounds)):
        if last > first:
            out[first:last] = F.linear(x[first:last], weights[expert])
    return out
