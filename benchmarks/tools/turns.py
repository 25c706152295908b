"""Turns: what is compared on a noisy machine runs by rounds, so that a burst of other work meets all of it."""

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from tqdm import tqdm

_Name = TypeVar("_Name", bound=Hashable)
_T = TypeVar("_T")


def by_rounds(ways: Mapping[_Name, Callable[[], _T]], rounds: int) -> dict[_Name, list[_T]]:
    """Return what each way gives, by name and round; a first round warms up and does not count.

    Every second round goes the other way round: none always finds the processor as the same other has left it.
    """
    results: dict[_Name, list[_T]] = {name: [] for name in ways}
    for number in tqdm(range(rounds + 1), leave=False, disable=None):
        for name in list(ways)[:: 1 if number % 2 else -1]:
            result = ways[name]()
            if number:
                results[name].append(result)
    return results


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return the two of the ratios between which the true median lies in at least 95 of 100 races, by the sign test.

    Of fewer than six no two are far enough apart for that; the smallest and the largest are returned.
    """
    rank = max(1, _rank(len(ratios)))
    return sorted(ratios)[rank - 1], sorted(ratios)[-rank]


def _rank(n: int) -> int:
    """The largest rank, from 1, above which n ratios leave the median in at most 2.5 of 100 races; 0: there is none.

    The ratio of rank r is above the median if fewer than r are below it, each of which is as likely as not.
    """
    rank, total, term = 0, 0.0, 0.5**n
    while total + term <= 0.025:
        total, rank = total + term, rank + 1
        term = term * (n - rank + 1) / rank
    return rank
