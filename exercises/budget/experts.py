"""The arithmetic of a mixture of experts, without torch; the mixture itself is `model.moe`.

Parameters held and at work, experts that a batch leaves unused, and how evenly a router loads them.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from .._require import require_count, require_not_negative

from course import NotYetWritten


class ParameterCounts(NamedTuple):
    """Parameters of a mixture: all that memory must hold, and those that one token goes through."""

    total: int
    active: int


def parameter_counts(shared_params: int, expert_params: int, n_experts: int, k: int) -> ParameterCounts:
    """Return a mixture's parameters: in total, and active for one token.

    Memory is bought for the total, since any token may choose any expert. Arithmetic is done with the active ones.

    Args:
        shared_params: parameters that every token goes through: attention, routers, norms, shared experts.
        expert_params: parameters of one expert, in all layers together.
        n_experts: experts to choose from.
        k: experts per token.

    Raises:
        ValueError: shared_params or expert_params below 0, n_experts not a whole number above 0, k outside 1 … E.

    Source: Fedus 2021, section 1.
    """
    raise NotYetWritten(
        "exercise 8.4 parameter_counts is not written yet: read "
        "notebooks/week08_mixture_of_experts/week08_mixture_of_experts.ipynb, write it in "
        "exercises/budget/experts.py, then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_experts.py"
        " --exercise parameter_counts"
    )


def expected_unused_experts(n_positions: int, n_experts: int, k: int) -> float:
    """Return how many of E experts a pass over P positions leaves unused on average: E · (1 - k/E)^P.

    Each position chooses k different experts, all choices equally likely and each position on its own: the balanced
    router. The pass reads the weights of the other E - unused experts.

    Raises:
        ValueError: n_positions not a whole number, 0 or more; n_experts not one above 0; k outside 1 … E.
    """
    raise NotYetWritten(
        "exercise 8.5 expected_unused_experts is not written yet: read "
        "notebooks/week08_mixture_of_experts/week08_mixture_of_experts.ipynb, write it in "
        "exercises/budget/experts.py, then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_experts.py"
        " --exercise expected_unused_experts"
    )


def expected_unused_given(chances: Sequence[float], n_positions: int) -> float:
    """Return the same for a router that is not balanced: Σ (1 - c)^P over the chances c that a position chooses each.

    Positions still choose independently of each other. With every chance k/E this is `expected_unused_experts`; of all
    routers with the same k = Σ c that one leaves the fewest unused.

    Raises:
        ValueError: a chance outside 0 to 1, or n_positions not a whole number, 0 or more.
    """
    raise NotYetWritten(
        "exercise 8.7 expected_unused_given is not written yet: read "
        "notebooks/week08_mixture_of_experts/week08_mixture_of_experts.ipynb, write it in "
        "exercises/budget/experts.py, then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_experts.py"
        " --exercise expected_unused_given"
    )


def load_imbalance(counts: Sequence[int]) -> float:
    """Return how many times its even share the busiest expert has: the largest count over the mean; 1 when balanced.

    Where every expert has a device of its own, all wait for the busiest: so many times longer does the layer take.

    Args:
        counts: for each expert, how often it was chosen.

    Raises:
        ValueError: no counts, a count that is not a whole number, 0 or more, or none above 0.
    """
    raise NotYetWritten(
        "exercise 8.6 load_imbalance is not written yet: read "
        "notebooks/week08_mixture_of_experts/week08_mixture_of_experts.ipynb, write it in "
        "exercises/budget/experts.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_expert_load.py --exercise load_imbalance"
    )


def effective_experts(counts: Sequence[int]) -> float:
    """Return how many evenly busy experts would be as diverse as these: exp(-Σ s·ln s), s an expert's share of choices.

    E when balanced, 1 when one expert does everything. An expert that is never chosen adds nothing.

    Raises:
        ValueError: as `load_imbalance`.

    Source: Hill 1973 (the exponential of the entropy).
    """
    total = checked_total(counts)
    return math.exp(-sum(count / total * math.log(count / total) for count in counts if count))


def require_choice(n_experts: int, k: int) -> None:
    """Raise a ValueError unless a token can be sent to k of n_experts: 1 ≤ k ≤ n_experts, both whole."""
    require_count(1, n_experts=n_experts, k=k)
    if k > n_experts:
        raise ValueError(f"k is {k}; of {n_experts} experts a token can have at most {n_experts}")


def checked_total(counts: Sequence[int]) -> int:
    """Return the sum of how often each expert was chosen.

    Raises:
        ValueError: a count that is not whole or below 0, or all of them 0.
    """
    for count in counts:
        require_count(0, counts=count)
    if not sum(counts):
        raise ValueError(f"counts are {list(counts)}; at least one expert must have been chosen")
    return sum(counts)
