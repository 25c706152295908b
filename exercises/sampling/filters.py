"""From logits to the next token: temperature, then top-k, top-p and min-p, then one draw.

Every filter works on rows (…, V), keeps at least one token of each and returns probabilities that sum to 1.
Probabilities are float64: ratios and running sums of them decide which token comes out.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from .checks import check_min_p, check_temperature, check_top_k, check_top_p

from course import NotYetWritten


def temperature_probs(logits: Float[Tensor, "... V"], temperature: float) -> Float[Tensor, "... V"]:
    """Return softmax(logits / temperature) in float64.

    Temperature 0 is the limit: all probability on the largest logit, the lowest id among equals. A logit of -inf
    is a forbidden token, with probability 0.

    Raises:
        ValueError: temperature negative or not finite; a row whose logits are all -inf; a NaN or +inf logit.
    """
    raise NotYetWritten(
        "exercise 3.1 temperature_probs is not written yet: read notebooks/week03_sampling/week03_sampling.ipynb, "
        "write it in exercises/sampling/filters.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/sampling/test_temperature.py --exercise temperature_probs"
    )


def top_k_filter(probs: Float[Tensor, "... V"], k: int) -> Float[Tensor, "... V"]:
    """Return probs with all but the k most probable tokens set to 0, renormalised to sum 1.

    Exactly k stay: among equals at the border the lower ids. k at or above V changes nothing.

    Raises:
        ValueError: k below 1.
    """
    raise NotYetWritten(
        "exercise 3.2 top_k_filter is not written yet: read notebooks/week03_sampling/week03_sampling.ipynb, write "
        "it in exercises/sampling/filters.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/sampling/test_top_k.py --exercise top_k_filter"
    )


def top_p_filter(probs: Float[Tensor, "... V"], p: float) -> Float[Tensor, "... V"]:
    """Return probs with only the smallest set of tokens whose total reaches p, renormalised to sum 1.

    Tokens are taken from the most probable down, lower ids first among equals, until the total is p or more: the
    token that crosses p stays. A total equal to p up to rounding (1e-9 in float64, 1e-6 in shorter types) has reached
    it. At least one token stays, also when p is below the largest probability; p = 1 keeps every token of
    probability above 0.

    Raises:
        ValueError: p outside (0, 1].
    """
    raise NotYetWritten(
        "exercise 3.3 top_p_filter is not written yet: read notebooks/week03_sampling/week03_sampling.ipynb, write "
        "it in exercises/sampling/filters.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/sampling/test_top_p.py --exercise top_p_filter"
    )


def min_p_filter(probs: Float[Tensor, "... V"], min_p: float) -> Float[Tensor, "... V"]:
    """Return probs with only the tokens that have at least min_p times the largest probability, renormalised to sum 1.

    Where the model is sure few tokens pass, where many are about as likely many do (Nguyen et al. 2024, "Turning up the
    heat: min-p sampling", arXiv:2407.01082). The most probable always stay; min_p = 0 changes nothing.

    Raises:
        ValueError: min_p outside [0, 1].
    """
    check_min_p(min_p)
    kept = probs.where(probs >= min_p * probs.max(dim=-1, keepdim=True).values, 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)


def rounding_tolerance(probs: Tensor) -> float:
    """A total that misses top_p by no more than this has reached it.

    Two sums of the same numbers in another order differ by a few units in the last place.
    """
    return 1e-9 if probs.dtype == torch.float64 else 1e-6


def check_finite(largest: Tensor) -> None:
    """One sum asks all rows at once: a single NaN or infinity makes it NaN or infinite."""
    if not math.isfinite(largest.double().sum().item()):
        raise ValueError("logits hold NaN, +inf, or a row of -inf only; each row needs a finite logit and no NaN")
