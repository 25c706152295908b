"""Points for an answer that is right in part: the share of its tests that pass, by one rule for both tracks.

A test function counts once, however many cases it has. Refusals of impossible input are a part of the tests and earn
their part; alone they earn nothing, since a function that refuses everything passes them all.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

from ..registry import Exercise
from .outcomes import Outcome


def earned(exercise: Exercise, outcomes: Sequence[Outcome]) -> float:
    """Return the points that the tests' outcomes earn: all of them, or the share passed, rounded down to a tenth."""
    if outcomes and all(outcome.passed for outcome in outcomes):
        return exercise.points
    passed = [outcome for outcome in outcomes if outcome.passed]
    if all(outcome.is_refusal for outcome in passed):
        return 0
    cases: dict[str, list[bool]] = defaultdict(list)
    for outcome in outcomes:
        cases[outcome.test.partition("[")[0]].append(outcome.passed)
    share = sum(sum(each) / len(each) for each in cases.values()) / len(cases)
    return math.floor(10 * exercise.points * share) / 10


def points(number: float) -> str:
    """Return "1 point", "2.5 points"."""
    return f"{number:g} {'point' if number == 1 else 'points'}"
