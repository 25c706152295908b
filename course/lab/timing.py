"""Fair timing on a noisy machine: the things compared take turns, and the median of each counts."""

import os
import statistics
import time
from collections.abc import Callable

from tqdm.auto import tqdm

# The most measured rounds, whatever a lesson asks for. Where nobody looks at the times, one is enough: nbgrader runs
# every cell of 800 submissions, and grades none of them by a time.
MOST_ROUNDS = "NANOLM_ROUNDS"


def side_by_side(calls: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Return the median seconds of each call, taken in turns (`take_turns`)."""
    return {name: statistics.median(seconds) for name, seconds in take_turns(calls, repeats).items()}


def rounds_allowed(repeats: int) -> int:
    """Return `repeats`, or fewer where the environment variable NANOLM_ROUNDS says so; for a lesson's own measurement.

    Raises:
        ValueError: NANOLM_ROUNDS not a whole number, or below 1.
    """
    most = os.environ.get(MOST_ROUNDS)
    if most is not None and not (most.isdecimal() and int(most) >= 1):
        raise ValueError(f"{MOST_ROUNDS} is {most!r}; it must be a whole number, 1 or more")
    return min(repeats, int(most or repeats))


def take_turns(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of every call, in `repeats` rounds in which each has one turn, after one that does not count.

    A burst of other work on the machine then hits all of them, and the ratio of two medians stays fair. Where the
    environment variable NANOLM_ROUNDS is set there are no more rounds than it says, and with 1 each call runs once.

    Raises:
        ValueError: repeats below 1; NANOLM_ROUNDS not a whole number, or below 1.
    """
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}; at least 1 measured round is needed")
    uncounted = 0 if os.environ.get(MOST_ROUNDS) == "1" else 1
    repeats = rounds_allowed(repeats)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    # A bar for who waits: it appears after two seconds, and moves between the calls, never inside one.
    with tqdm(total=(uncounted + repeats) * len(calls), leave=False, delay=2) as bar:
        for round_number in range(uncounted + repeats):
            for name, call in calls.items():
                start = time.perf_counter()
                call()
                if round_number >= uncounted:
                    seconds[name].append(time.perf_counter() - start)
                bar.update()
    return seconds
