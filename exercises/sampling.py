"""From scores to the next token: temperature, then top-k, then top-p, then one draw.

Every filter works on rows (…, V), keeps at least one token of each and returns probabilities that sum to 1.
Probabilities are float64: ratios and running sums of them decide which token comes out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .dice import Dice

from course import NotYetWritten

# Two sums of the same numbers in another order differ by a few units in the last place. A total that misses
# top_p by no more than this has reached it.
_ROUNDING = {torch.float64: 1e-9}
_ROUNDING_SHORT = 1e-6


@dataclass(frozen=True)
class Sampling:
    """How to choose each token of a request.

    Attributes:
        temperature: 0 is greedy, 1 the model's own distribution.
        top_k: keep the k most probable tokens; None keeps all.
        top_p: keep the smallest set of tokens whose total reaches p; None keeps all.
        end_tokens: ids that end the text; None means the model's own, () means none.

    Raises:
        ValueError: temperature below 0, top_k below 1, or top_p outside (0, 1].
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    end_tokens: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _check_temperature(self.temperature)
        if self.top_k is not None:
            _check_top_k(self.top_k)
        if self.top_p is not None:
            _check_top_p(self.top_p)

    def probs(self, logits: Float[Tensor, "... V"]) -> Float[Tensor, "... V"]:
        """Return the distribution that the next token is drawn from: temperature, then top-k, then top-p.

        Each filter sees what the one before it has left, renormalised; one that is None is left out. The result is
        float64, in the shape of logits.

        Raises:
            ValueError: what `temperature_probs` refuses.
        """
        raise NotYetWritten(
            "exercise 3.4 Sampling.probs is not written yet: read notebooks/week03_sampling/week03_sampling.ipynb, "
            "write it in exercises/sampling.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/test_sampling.py -k probs"
        )


def temperature_probs(logits: Float[Tensor, "... V"], temperature: float) -> Float[Tensor, "... V"]:
    """Return softmax(logits / temperature) in float64.

    Temperature 0 is the limit: all probability on the largest logit, the lowest id among equals. A logit of -inf
    is a forbidden token, with probability 0.

    Raises:
        ValueError: temperature negative or not finite; a row whose logits are all -inf; a NaN or +inf logit.
    """
    raise NotYetWritten(
        "exercise 3.1 temperature_probs is not written yet: read notebooks/week03_sampling/week03_sampling.ipynb, "
        "write it in exercises/sampling.py, then run: NANOLM_IMPL=exercises python -m pytest tests/test_sampling.py"
        " -k temperature_probs"
    )


def top_k_filter(probs: Float[Tensor, "... V"], k: int) -> Float[Tensor, "... V"]:
    """Return probs with all but the k most probable tokens set to 0, renormalised to sum 1.

    Exactly k stay: among equals at the border the lower ids. k at or above V changes nothing.

    Raises:
        ValueError: k below 1.
    """
    raise NotYetWritten(
        "exercise 3.2 top_k_filter is not written yet: read notebooks/week03_sampling/week03_sampling.ipynb, write "
        "it in exercises/sampling.py, then run: NANOLM_IMPL=exercises python -m pytest tests/test_sampling.py -k "
        "top_k_filter"
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
        "it in exercises/sampling.py, then run: NANOLM_IMPL=exercises python -m pytest tests/test_sampling.py -k "
        "top_p_filter"
    )


def sample_next(logits: Float[Tensor, "B V"], sampling: Sampling, dice: Dice) -> Int[Tensor, "B"]:
    """Return one token a row, (B,) integers: temperature, then top-k, then top-p, then one draw.

    Rows are drawn from the first to the last, each with one `dice.categorical` over its V probabilities. At temperature
    0 a row's token is the one with the largest logit, the lowest id among equals, and no randomness is used.

    Raises:
        ValueError: a row whose logits are all -inf; a NaN or +inf logit; at temperature 0 as well.
    """
    raise NotYetWritten(
        "exercise 3.5 sample_next is not written yet: read notebooks/week03_sampling/week03_sampling.ipynb, write "
        "it in exercises/sampling.py, then run: NANOLM_IMPL=exercises python -m pytest tests/test_sampling.py -k "
        "sample_next"
    )


def float32_sum(values: Sequence[float], order: Sequence[int]) -> float:
    """Return the float32 sum of the values taken in the given order, rounded after every addition.

    The values themselves are rounded to float32 first. The result is a Python float; without values it is 0.0.

    Raises:
        ValueError: order is not a permutation of 0 … len(values) - 1.
    """
    raise NotYetWritten(
        "exercise 3.6 float32_sum is not written yet: read notebooks/week03_sampling/week03_sampling.ipynb, write "
        "it in exercises/sampling.py, then run: NANOLM_IMPL=exercises python -m pytest tests/test_sampling.py -k "
        "float32_sum"
    )


def greedy_pick_with_summation_order(terms: Sequence[Sequence[float]], order: Sequence[int]) -> int:
    """Return the token with the largest score, each score a float32 sum of its terms in the given order.

    `terms[token]` are the products that add up to the token's logit. The same terms in another order can pick
    another token: that is all it takes for temperature 0 to give two texts. Equal scores go to the lower id.
    """
    raise NotYetWritten(
        "exercise 3.7 greedy_pick_with_summation_order is not written yet: read "
        "notebooks/week03_sampling/week03_sampling.ipynb, write it in exercises/sampling.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/test_sampling.py -k greedy_pick_with_summation_order"
    )


def _check_finite(largest: Tensor) -> None:
    """One sum asks all rows at once: a single NaN or infinity makes it NaN or infinite."""
    if not math.isfinite(largest.double().sum().item()):
        raise ValueError("logits hold NaN, +inf, or a row of -inf only; each row needs a finite score and no NaN")


def _check_temperature(temperature: float) -> None:
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature is {temperature}; it must be finite and 0 (greedy) or more")


def _check_top_k(k: int) -> None:
    if k < 1:
        raise ValueError(f"top_k is {k}; at least 1 token must stay (None keeps all)")


def _check_top_p(p: float) -> None:
    if not 0 < p <= 1:
        raise ValueError(f"top_p is {p}; it must be above 0 and at most 1 (None keeps all)")
