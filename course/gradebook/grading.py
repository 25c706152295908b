"""A class's answers through the judge: several at once, each result kept, no failure stopping another."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from ..intake.submission import ANSWERED, MISSING, UNREADABLE, UNWRITTEN, Submission
from ..judge.marks import Mark, mark
from ..registry import Exercise
from ..text.json_lines import CannotKeep
from .store import Results, key

_WORDS = {
    MISSING: "{name} was not handed in: no cell or file defines it",
    UNWRITTEN: "{name} is not written yet",
    UNREADABLE: "{name} cannot be read: {why}",
}


class Judging(Protocol):
    """What is asked of a judge; several threads ask at once."""

    def grade(self, files: Mapping[str, str], exercises: Sequence[Exercise], seed: int) -> list[Mark]:
        """Return a mark for each exercise."""
        ...


@dataclass
class Graded:
    """One student's submission and its marks.

    Attributes:
        marks: by an exercise's number.
        failures: by number, why the judge could not be asked: not the student's fault, and nothing is kept of it.
    """

    submission: Submission
    marks: dict[str, Mark] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def graded(
    submissions: Iterable[Submission],
    exercises: Sequence[Exercise],
    judge: Judging,
    results: Results,
    seed: int,
    workers: int = 1,
    tell: Callable[[Submission], object] = lambda submission: None,
) -> list[Graded]:
    """Return every submission with its marks, in the order of the submissions.

    Args:
        results: what is known already, and where new marks are kept as they come.
        workers: answers at once.
        tell: called with each submission that is done.
    """
    found: list[Graded] = []
    waiting: dict[Future[Mark], tuple[Graded, Exercise]] = {}
    left: dict[int, int] = {}
    with ThreadPoolExecutor(workers) as pool:
        try:
            for submission in submissions:
                one = Graded(submission)
                found.append(one)
                left[id(one)] = 0
                for exercise, files, name in _to_ask(one, exercises, results, seed):
                    left[id(one)] += 1
                    job = pool.submit(_one, judge, files, exercise, seed, results, name)
                    waiting[job] = (one, exercise)
                if not left[id(one)]:
                    tell(submission)
                for done in _done(waiting, left, 2 * workers):
                    tell(done)
            for done in _done(waiting, left, 0):
                tell(done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def _to_ask(
    one: Graded, exercises: Sequence[Exercise], results: Results, seed: int
) -> Iterator[tuple[Exercise, Mapping[str, str], str]]:
    """The answers that only the judge can mark; all others are marked at once."""
    submission = one.submission
    for exercise in exercises:
        state = submission.states.get(exercise.number, MISSING)
        if state != ANSWERED:
            why = submission.problems.get(exercise.number, "")
            one.marks[exercise.number] = mark(exercise, seed, state, _WORDS[state].format(name=exercise.name, why=why))
            continue
        files = submission.answers[exercise.number]
        name = key(exercise, files, seed)
        if name in results.marks:
            one.marks[exercise.number] = results.marks[name]
        else:
            yield exercise, files, name


def _one(judge: Judging, files: Mapping[str, str], exercise: Exercise, seed: int, results: Results, name: str) -> Mark:
    """Ask the judge, and keep what it says before anything else can happen."""
    (mark,) = judge.grade(files, [exercise], seed)
    results.keep(name, mark)
    return mark


def _done(
    waiting: dict[Future[Mark], tuple[Graded, Exercise]], left: dict[int, int], most: int
) -> Iterator[Submission]:
    """Take results in until at most so many are out; give the submissions that are complete."""
    while len(waiting) > most:
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            one, exercise = waiting.pop(future)
            error = future.exception()
            if isinstance(error, CannotKeep):
                raise error
            if error is not None:
                one.failures[exercise.number] = f"{type(error).__name__}: {error}"
            else:
                one.marks[exercise.number] = future.result()
            left[id(one)] -= 1
            if not left[id(one)]:
                yield one.submission
