"""Is a sample drawn from a given distribution? A test whose false alarms are counted before it runs."""

import math
from collections.abc import Sequence

SPENT: list[float] = []  # the chance of a false alarm of each call in this process; conftest.py adds them up


def assert_sampled_from(counts: Sequence[int], probs: Sequence[float], what: str, delta: float = 1e-6) -> None:
    """Fail unless every cell's share is as near to its probability as chance allows.

    For one cell, Chernoff's bound says P(n·KL(p̂‖p) ≥ t) ≤ 2·e^(-t), KL between two coins. Over K cells,
    t = ln(2K/δ) makes a false alarm less likely than δ (17.3 at K = 16, δ = 1e-6).
    A cell of probability 0 must be empty.
    """
    SPENT.append(delta)
    n, threshold = sum(counts), math.log(2 * len(probs) / delta)
    for cell, (count, p) in enumerate(zip(counts, probs, strict=True)):
        surprise = n * _coin_kl(count / n, p)
        assert surprise <= threshold, (
            f"{what}: token {cell} came out {count / n:.4f} of the time in {n:,} draws, and should {p:.4f} of the time "
            f"(n·KL is {surprise:.1f}, chance explains up to {threshold:.1f})"
        )


def _coin_kl(share: float, p: float) -> float:
    def part(a: float, b: float) -> float:
        return 0.0 if a == 0 else math.inf if b == 0 else a * math.log(a / b)

    return part(share, p) + part(1 - share, 1 - p)
