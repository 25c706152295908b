"""A mark: what an answer earns, why, and by which tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..audit.fingerprint import fingerprint
from ..errors import CheckFailed, NotYetWritten
from ..grading.checking import told
from ..grading.outcomes import Outcome, earned
from ..registry import Exercise

PASSED, PARTIAL, FAILED, UNWRITTEN, MISSING = "passed", "partial", "failed", "unwritten", "missing"
UNREADABLE, CRASHED, SUSPICIOUS, TIME, MEMORY = "unreadable", "crashed", "suspicious", "time", "memory"
_HUMAN = "no points until somebody has looked at it"


@dataclass(frozen=True)
class Mark:
    """What one answer earns.

    Attributes:
        exercise: its number.
        state: PASSED, PARTIAL, FAILED; UNWRITTEN, MISSING (no such function), UNREADABLE (no Python); CRASHED (its
            process ended), TIME, MEMORY (a limit was met); SUSPICIOUS (for a human to judge).
        points: earned, of max_points.
        seed: of the inputs; `check(…, seed=…)` repeats them.
        feedback: what `check` prints, without a traceback.
        version: what stands for the tests and the lesson that it was graded by.
    """

    exercise: str
    state: str
    points: float
    max_points: int
    seed: int
    feedback: str
    version: str


def mark(exercise: Exercise, seed: int, state: str, feedback: str, points: float = 0) -> Mark:
    """Return a mark of this exercise as it is now."""
    return Mark(exercise.number, state, points, exercise.points, seed, feedback, version(exercise))


def version(exercise: Exercise) -> str:
    """Return what changes when the exercise's tests, its text, its points or the grader do."""
    return f"{fingerprint(exercise)}-{exercise.points}"


def by_outcomes(exercise: Exercise, seed: int, report: Mapping[str, Any]) -> Mark:
    """Return the mark for what the tests found, in the words and with the points of `check`."""
    outcomes = [Outcome(**each | {"targets": tuple(each["targets"])}) for each in report["outcomes"]]
    try:
        return mark(
            exercise, seed, PASSED, told(exercise, exercise.name, outcomes, report["left"], seed), exercise.points
        )
    except NotYetWritten as error:
        return mark(exercise, seed, UNWRITTEN, str(error))
    except CheckFailed as error:
        return mark(exercise, seed, _state(exercise, outcomes), str(error), error.points)


def _state(exercise: Exercise, outcomes: Sequence[Outcome]) -> str:
    messages = [outcome.message for outcome in outcomes if not outcome.passed]
    if any(message.startswith("still running after") for message in messages):
        return TIME
    if any(message.startswith("it took more than") for message in messages):
        return MEMORY
    return PARTIAL if earned(exercise, outcomes) else FAILED


def broken_off(exercise: Exercise, seed: int, how: str) -> Mark:
    """Return the mark where a process has not come to its end: what stopped it, in a sentence."""
    name = exercise.name
    kind, _, rest = how.partition(" ")
    if how == "forged":
        return suspicious(exercise, seed, ["the answer sent results that are not the judge's"])
    if how == "canary":
        return suspicious(exercise, seed, ["a mistake planted on purpose passed after this answer had run"])
    if how == "time":
        return mark(exercise, seed, TIME, f"{name}: its tests did not end in time, and nothing inside could end them")
    if how == "memory":
        return mark(exercise, seed, MEMORY, f"{name}: it took more memory than all tests of an exercise may")
    said = (
        f"by {how}" if kind == "signal" else f"with exit code {rest}" if kind == "exit" else how.removeprefix("fault: ")
    )
    return mark(exercise, seed, CRASHED, f"{name}: the answer ended the process that its tests ran in ({said})")


def suspicious(exercise: Exercise, seed: int, findings: Sequence[str]) -> Mark:
    """Return the mark for an answer that does what no answer has to do."""
    lines = [f"- {finding}" for finding in findings]
    return mark(exercise, seed, SUSPICIOUS, "\n".join([f"{exercise.name}: {_HUMAN}", *lines]))
