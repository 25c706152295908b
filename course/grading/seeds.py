"""The seed of a run of tests: what their random inputs are made of.

Answers meet inputs that are new in each run, so that no table of right answers passes; the run prints its seed, and
`--seed` repeats it. The reference, and so the project's own checks, always run with seed 0.
"""

import secrets
from dataclasses import dataclass


@dataclass
class _Run:
    seed: int = 0


_run = _Run()


def new() -> int:
    """Return a seed that nobody has chosen, short enough to be typed."""
    return 1 + secrets.randbelow(999_999)


def use(seed: int) -> int:
    """Make this the seed of the run; return the one before."""
    before, _run.seed = _run.seed, seed
    return before


def current() -> int:
    """Return the seed of the run."""
    return _run.seed


def fresh(seed: int) -> int:
    """Return a test's own seed as it is in this run: itself where the run's is 0, another in every other run."""
    return seed if _run.seed == 0 else (seed + 1) * 1_000_003 + _run.seed
