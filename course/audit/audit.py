"""The cases of an exercise, in one process and a right answer after each wrong one, and what they say of its tests."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ..paths import ROOT, read
from ..registry import Exercise
from .cases import Mistake, Right, mistakes_in, right_in
from .mutants import mutants
from .run import (
    AGAIN,
    MUTANT,
    RIGHT,
    THE_ENGINES_OWN,
    WRONG,
    Result,
    audit_mistake,
    audit_mutant,
    audit_reference,
    audit_right,
)
from .sentences import sentences, stale, uncovered
from .store import key

MISTAKES, STYLES = 6, 4  # an exercise has at least these


@dataclass(frozen=True)
class Case:
    """One thing to grade: what it is, the key of its result, and the call that makes it."""

    exercise: str
    kind: str
    name: str
    key: str
    run: Callable[[], Result]


def cases(exercise: Exercise, seed: int, weak: tuple[str, ...] = ()) -> Iterator[Case]:
    """Yield the cases of an exercise in the order in which one process grades them.

    A right answer follows each wrong one, since what a wrong one damages must cost the next student nothing.
    """
    right = right_in(exercise)
    turns: list[Right | None] = [None, *right]
    for answer in turns:
        yield _right_case(exercise, answer, RIGHT, seed, weak)
    for i, mistake in enumerate(mistakes_in(exercise)):
        run = functools.partial(audit_mistake, exercise, mistake, seed, weak)
        name = key(exercise, WRONG, f"{mistake.text}{mistake.test}{mistake.says}", seed, weak)
        yield Case(exercise.number, WRONG, mistake.name, name, run)
        yield _right_case(exercise, turns[i % len(turns)], AGAIN, seed, weak, after=mistake)


def _right_case(
    exercise: Exercise, answer: Right | None, kind: str, seed: int, weak: tuple[str, ...], after: Mistake | None = None
) -> Case:
    if answer is None:
        run = functools.partial(audit_reference, exercise, seed, kind)
        name, text = THE_ENGINES_OWN, read(ROOT / "nanolm" / exercise.file)
    else:
        run = functools.partial(audit_right, exercise, answer, seed, kind, weak)
        name, text = answer.name, answer.text
    before = after.text if after else ""
    return Case(exercise.number, kind, name, key(exercise, kind, text + before, seed, weak), run)


def mutant_cases(exercise: Exercise, seed: int) -> Iterator[Case]:
    """Yield the mutants of an exercise's reference."""
    for mutant in mutants(exercise):
        run = functools.partial(audit_mutant, exercise, mutant, seed)
        yield Case(exercise.number, MUTANT, mutant.name, key(exercise, MUTANT, mutant.text, seed, ()), run)


@dataclass
class Row:
    """What the audit found of one exercise."""

    exercise: Exercise
    results: list[Result] = field(default_factory=list)

    def of(self, *kinds: str) -> list[Result]:
        """Return the results of some kinds."""
        return [result for result in self.results if result.kind in kinds]

    @property
    def sentences(self) -> tuple[int, int]:
        """How many sentences of the docstrings have their mistake, or need none, and how many there are."""
        return len(sentences(self.exercise)) - len(self._uncovered()), len(sentences(self.exercise))

    def _uncovered(self) -> list[str]:
        return uncovered(self.exercise, {result.name for result in self.of(WRONG) if not result.is_fault})

    def complaints(self) -> list[str]:
        """Return what is wrong, a line each: faults of the grader first, then what the audit itself lacks."""
        number = f"{self.exercise.number} {self.exercise.name}"
        found = [f"{number}: {_fault(result)}" for result in self.results if result.is_fault]
        wrong, right = len(self.of(WRONG)), len([r for r in self.of(RIGHT) if r.name != THE_ENGINES_OWN])
        if wrong < MISTAKES:
            found.append(f"{number}: {wrong} planted mistakes, at least {MISTAKES} are asked")
        if right < STYLES:
            found.append(f"{number}: {right} right answers in other styles, at least {STYLES} are asked")
        found += [f"{number}: no mistake breaks the sentence {sentence!r}" for sentence in self._uncovered()]
        return found + stale(self.exercise, {mistake.name for mistake in mistakes_in(self.exercise)})


def _fault(result: Result) -> str:
    if result.kind != WRONG:
        return f"{result.kind} refused, {result.name!r}: {result.said}"
    if result.accepted:
        return f"wrong accepted, {result.name!r}"
    return f"{result.name!r} is {'caught, but not named' if result.caught else 'not caught by its test'}: {result.said}"


def rates(rows: Sequence[Row]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (wrong answers accepted, of how many) and (right answers refused, of how many)."""
    wrong = [result for row in rows for result in row.of(WRONG)]
    right = [result for row in rows for result in row.of(RIGHT, AGAIN)]
    return (sum(r.accepted for r in wrong), len(wrong)), (sum(not r.accepted for r in right), len(right))
