"""A mark: what an answer earns, why, and by which tests."""

from dataclasses import dataclass

from ..grading.fingerprint import fingerprint
from ..registry import Exercise

PASSED, PARTIAL, FAILED, UNWRITTEN, MISSING = "passed", "partial", "failed", "unwritten", "missing"
UNREADABLE, CRASHED, SUSPICIOUS, TIME, MEMORY = "unreadable", "crashed", "suspicious", "time", "memory"


@dataclass(frozen=True)
class Mark:
    """What one answer earns."""

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
