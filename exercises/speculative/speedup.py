"""When speculation pays: tokens a round, and the time of one (Leviathan et al. 2022, section 3)."""

from course import NotYetWritten


def expected_tokens_per_round(alpha: float, gamma: int) -> float:
    """Return the mean number of tokens that one target pass yields: 1 + α + α² + … + α^γ.

    One token always comes (the resampled or the bonus token); the i-th drafted token is kept if it and all before
    it are, which happens with α^i. That takes α as equal at every position (Leviathan et al. 2022, equation 1).

    Args:
        alpha: acceptance rate, 0 to 1. At 1 the result is γ + 1.
        gamma: drafted tokens a round, 0 or more.

    Raises:
        ValueError: alpha outside 0 … 1, or gamma negative.
    """
    raise NotYetWritten(
        "exercise 4.4 expected_tokens_per_round is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative/speedup.py, then "
        "run: NANOLM_IMPL=exercises python -m pytest tests/speculative/test_speedup.py --exercise "
        "expected_tokens_per_round"
    )


def speculative_speedup(alpha: float, gamma: int, draft_cost: float) -> float:
    """Return how many times faster than plain decoding speculation is: tokens a round over the time of a round.

    A round takes γ draft passes and one target pass, so in units of a target pass 1 + γ·draft_cost. That the target
    checks γ + 1 positions in the time of one holds while loading weights is what a pass waits for (Leviathan et al.
    2022, theorem 3.8). Below 1 means speculation loses.

    Args:
        alpha: acceptance rate, 0 to 1.
        gamma: drafted tokens a round, 0 or more; 0 gives 1.
        draft_cost: time of a draft pass as a share of a target pass, 0 or more.

    Raises:
        ValueError: an argument out of its range.
    """
    raise NotYetWritten(
        "exercise 4.5 speculative_speedup is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative/speedup.py, then "
        "run: NANOLM_IMPL=exercises python -m pytest tests/speculative/test_speedup.py --exercise "
        "speculative_speedup"
    )


def best_gamma(alpha: float, draft_cost: float, max_gamma: int = 32) -> int:
    """Return the γ from 0 to max_gamma with the largest speculative_speedup, the smallest among equals.

    0 means: do not speculate.

    Raises:
        ValueError: alpha outside 0 … 1, draft_cost below 0, or max_gamma negative.
    """
    raise NotYetWritten(
        "exercise 4.6 best_gamma is not written yet: read notebooks/week04_speculative/week04_speculative.ipynb, "
        "write it in exercises/speculative/speedup.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/speculative/test_speedup.py --exercise best_gamma"
    )


def check_alpha_gamma(alpha: float, gamma: int) -> None:
    """Raise a ValueError unless alpha is 0 to 1 and gamma 0 or more."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; an acceptance rate lies between 0 and 1")
    if gamma < 0:
        raise ValueError(f"gamma is {gamma}; a round drafts 0 or more tokens")
