"""One case of the audit: an answer graded as a student's is, by all tests of its exercise, and what came of it."""

import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from ..grading.implementation import Implementation
from ..grading.outcomes import Outcome, earned, knows_little
from ..grading.runner import Run, run_exercises
from ..paths import ROOT, read
from ..registry import Exercise
from .cases import Mistake, Right, folder_of, notebook_of
from .mutants import Mutant

SECONDS = 120  # an exercise's whole run; each test has a limit of its own
WRONG, RIGHT, AGAIN, MUTANT = "wrong", "right", "right after a wrong one", "mutant"
THE_ENGINES_OWN = "the engine's own text"


@dataclass(frozen=True)
class Result:
    """What came of one case.

    Attributes:
        exercise: its number.
        kind: WRONG, RIGHT, AGAIN (a right answer in the process in which a wrong one has just been graded) or MUTANT.
        name: the case's.
        seed: of the inputs.
        accepted: whether every test passed.
        caught: whether the test meant for the mistake failed.
        named: whether its message names the mistake.
        named_first: whether the first complaint that the student reads does.
        share: of the points that the answer earned.
        said: the first complaint.
        seconds: that it took.
    """

    exercise: str
    kind: str
    name: str
    seed: int
    accepted: bool
    caught: bool
    named: bool
    named_first: bool
    share: float
    said: str
    seconds: float

    @property
    def is_fault(self) -> bool:
        """Whether the grader failed: a wrong answer accepted, or not by name refused, or a right one refused.

        A mutant that is accepted may be equivalent; whoever knows the list of those decides (`show_mutants`).
        """
        if self.kind == MUTANT:
            return False
        return not (self.caught and self.named and not self.accepted) if self.kind == WRONG else not self.accepted

    def to_json(self) -> dict[str, Any]:
        """Return what `Result(**…)` takes."""
        return asdict(self)


def audit_mistake(exercise: Exercise, mistake: Mistake, seed: int, weak: Collection[str] = ()) -> Result:
    """Grade an answer with this mistake, in the editor's track."""
    started = time.monotonic()
    with folder_of(exercise, mistake.text) as answers:
        run = _run(exercise, answers, seed, weak)
    meant = [outcome for outcome in _failed(run) if outcome.test.partition("[")[0] == mistake.test]
    first = _first(run)
    return Result(
        *(exercise.number, WRONG, mistake.name, seed, run.passed),
        caught=bool(meant),
        named=any(mistake.says in outcome.message for outcome in meant),
        named_first=mistake.says in first,
        share=earned(exercise, run.outcomes) / exercise.points,
        said=first,
        seconds=time.monotonic() - started,
    )


def audit_right(exercise: Exercise, answer: Right, seed: int, kind: str = RIGHT, weak: Collection[str] = ()) -> Result:
    """Grade a right answer, in the notebook's track."""
    return _right(exercise, answer.name, notebook_of(exercise, answer), seed, kind, weak)


def audit_reference(exercise: Exercise, seed: int, kind: str = RIGHT) -> Result:
    """Grade the engine's own text as an answer."""
    with folder_of(exercise, read(ROOT / "nanolm" / exercise.file)) as answers:
        return _right(exercise, THE_ENGINES_OWN, answers, seed, kind)


def _right(
    exercise: Exercise, name: str, answers: Implementation, seed: int, kind: str, weak: Collection[str] = ()
) -> Result:
    started = time.monotonic()
    run = _run(exercise, answers, seed, weak)
    share = earned(exercise, run.outcomes) / exercise.points
    took = time.monotonic() - started
    return Result(exercise.number, kind, name, seed, run.passed, False, False, False, share, _first(run), took)


def audit_mutant(exercise: Exercise, mutant: Mutant, seed: int) -> Result:
    """Grade a mutant up to the first test that notices it."""
    started = time.monotonic()
    with folder_of(exercise, mutant.text) as answers:
        run = run_exercises([exercise], answers, SECONDS, seed=seed, first=True)
    took = time.monotonic() - started
    return Result(exercise.number, MUTANT, mutant.name, seed, run.passed, False, False, False, 0.0, _first(run), took)


def _run(exercise: Exercise, answers: Implementation, seed: int, weak: Collection[str] = ()) -> Run:
    return run_exercises([exercise], answers, SECONDS, seed=seed, weak=weak)


def _failed(run: Run) -> list[Outcome]:
    return [outcome for outcome in run.outcomes if not outcome.passed]


def _first(run: Run) -> str:
    """The complaint that `check` prints first."""
    failed = sorted(_failed(run), key=knows_little)
    return run.error or (failed[0].message if failed else "")
