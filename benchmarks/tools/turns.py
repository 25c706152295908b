"""Turns: what is compared on a noisy machine runs by rounds, so that a burst of other work meets all of it."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from tqdm import tqdm

_T = TypeVar("_T")


def by_rounds(ways: Mapping[str, Callable[[], _T]], rounds: int) -> dict[str, list[_T]]:
    """Return what each way gives, by name and round; a first round warms up and does not count."""
    results: dict[str, list[_T]] = {name: [] for name in ways}
    for number in tqdm(range(rounds + 1), leave=False, disable=None):
        for name, way in ways.items():
            result = way()
            if number:
                results[name].append(result)
    return results
