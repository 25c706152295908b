"""Fair timing on a noisy machine: the things compared take turns, and the median of each counts."""

import statistics
import time
from collections.abc import Callable


def side_by_side(calls: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Return the median seconds of each call, taken in turns (`take_turns`)."""
    return {name: statistics.median(seconds) for name, seconds in take_turns(calls, repeats).items()}


def take_turns(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of every call, in `repeats` rounds in which each has one turn, after one that does not count.

    A burst of other work on the machine then hits all of them, and the ratio of two medians stays fair.

    Raises:
        ValueError: repeats below 1.
    """
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}; at least 1 measured round is needed")
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for round_number in range(repeats + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if round_number:
                seconds[name].append(time.perf_counter() - start)
    return seconds
