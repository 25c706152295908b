"""How far one is: which exercises are written, which pass, and what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from ..registry import Exercise, Question
from .implementation import Implementation
from .outcomes import Outcome, earned
from .runner import run_exercises

_SECONDS = 1200  # for all exercises together; each test has a limit of its own


@dataclass(frozen=True)
class Standing:
    """One exercise and what its tests found.

    Attributes:
        exercise: the exercise.
        outcomes: of its tests.
        error: what kept them from running.
        answer: where the answer stands, in a few words; empty where that is not asked.
        hint: what to do where nobody has written it; empty: what the exercise itself says.
        other: the same for a second answer, which differs from the first.
        problem: why the answer cannot be read; empty where it can.
    """

    exercise: Exercise
    outcomes: list[Outcome]
    error: str
    answer: str = ""
    hint: str = ""
    other: "Standing | None" = None
    problem: str = ""

    @property
    def state(self) -> str:
        """One of "passes", "fails", "not written"."""
        if self.outcomes and not self.error and all(outcome.passed for outcome in self.outcomes):
            return "passes"
        is_unwritten = bool(self.hint) or any(outcome.unwritten for outcome in self.outcomes)
        return "not written" if is_unwritten else "fails"

    @property
    def points(self) -> float:
        """What its best answer earns, tests passed in part included."""
        mine = 0 if self.error or self.state == "not written" else earned(self.exercise, self.outcomes)
        return max(mine, self.other.points if self.other is not None else 0)

    @property
    def is_won(self) -> bool:
        """Whether one of its answers passes."""
        return self.state == "passes" or (self.other is not None and self.other.state == "passes")


def standings(exercises: list[Exercise], implementation: Implementation) -> list[Standing]:
    """Run the tests of all exercises once and return each exercise's own outcomes."""
    if not exercises:
        return []
    run = run_exercises(exercises, implementation, _SECONDS, brief=True)
    return [
        Standing(exercise, [o for o in run.outcomes if not set(o.targets).isdisjoint(exercise.targets)], run.error)
        for exercise in exercises
    ]


def figures(found: list[Standing], questions: Mapping[Question, bool] | None = None) -> list[dict[str, Any]]:
    """Return every exercise and question as plain values: its state, where its answer is, points won and possible."""
    rows = [
        {
            "number": standing.exercise.number,
            "name": standing.exercise.name,
            "week": standing.exercise.week,
            "state": standing.state,
            "answer_in": standing.answer or None,
            "points_won": standing.points,
            "points": standing.exercise.points,
            "minutes": standing.exercise.minutes,
        }
        for standing in found
    ]
    return rows + [
        {
            "number": question.number,
            "name": question.name,
            "week": question.week,
            "state": "graded by hand" if is_written else "not written",
            "answer_in": "notebook" if is_written else None,
            "points_won": None,
            "points": question.points,
            "minutes": question.minutes,
        }
        for question, is_written in (questions or {}).items()
    ]


def show(found: list[Standing], console: Console, questions: Mapping[Question, bool] | None = None) -> None:
    """Print a table per week, its points and minutes, and the next thing to do.

    Args:
        questions: those answered in words, and whether each has an answer.
    """
    questions = questions or {}
    for week in sorted({standing.exercise.week for standing in found} | {question.week for question in questions}):
        of_week = [standing for standing in found if standing.exercise.week == week]
        in_words = {question: has for question, has in questions.items() if question.week == week}
        console.print(_table(week, of_week, in_words))
        console.print(_sum(of_week, in_words) + "\n")
    for line in _differences(found):
        console.print(line, markup=False)
    console.print(next_step(found, questions), markup=False)


_COLOURS = {"passes": "green", "fails": "red", "not written": "dim", "graded by hand": "cyan"}


def _table(week: int, found: list[Standing], questions: Mapping[Question, bool]) -> Table:
    table = Table(title=f"Week {week}", title_justify="left", title_style="bold")
    has_answers = any(standing.answer for standing in found) or bool(questions)
    for heading in ("", "exercise", "state", *(["answer in"] if has_answers else []), "points", "minutes"):
        table.add_column(heading, justify="right" if heading in ("points", "minutes") else "left", overflow="fold")
    for standing in found:
        for each in filter(None, [standing, standing.other]):
            head = ("", "") if each is standing.other else (each.exercise.number, each.exercise.name)
            tail = ("", "") if each is standing.other else (str(each.exercise.points), str(each.exercise.minutes))
            table.add_row(*head, _coloured(each), *([each.answer] if has_answers else []), *tail)
    for question, is_written in questions.items():
        state = f"[{_COLOURS['graded by hand']}]graded by hand[/]" if is_written else "[dim]not written[/]"
        where = "notebook" if is_written else ""
        table.add_row(question.number, question.name, state, where, str(question.points), str(question.minutes))
    return table


def _coloured(standing: Standing) -> str:
    state, failed = standing.state, sum(not outcome.passed for outcome in standing.outcomes)
    detail = f", {failed} of {len(standing.outcomes)} tests" if state == "fails" and standing.outcomes else ""
    return f"[{_COLOURS[state]}]{state}{detail}[/]"


def _sum(found: list[Standing], questions: Mapping[Question, bool]) -> str:
    tasks = [*(standing.exercise for standing in found), *questions]
    left = [s.exercise for s in found if not s.is_won] + [question for question, has in questions.items() if not has]
    won = sum(standing.points for standing in found)
    by_hand, minutes = sum(question.points for question in questions), sum(task.minutes for task in left)
    text = f"{won:g} of {sum(task.points for task in tasks)} points"
    text += f" ({by_hand} of them graded by hand)" if by_hand else ""
    return text + (f", about {minutes} minutes left" if minutes else "")


def _differences(found: list[Standing]) -> list[str]:
    """A line for each exercise with two answers."""
    return [
        f"{one.exercise.number} {one.exercise.name} has two answers: in the {one.answer} it {one.state}, "
        f"in the {one.other.answer} it {one.other.state}"
        for one in found
        if one.other is not None
    ]


def next_step(found: list[Standing], questions: Mapping[Question, bool] | None = None) -> str:
    """Return what to do next, with the exact command: mend what fails first, then write the next exercise."""
    for state in ("fails", "not written"):
        for standing in found:
            if standing.state == state and not standing.is_won:
                return f"next: {_advice(standing)}"
    for question, is_written in (questions or {}).items():
        if not is_written:
            return f"next: question {question.number}, {question.name}: answer it in words in the notebook"
    return "everything passes" if found else "no exercises yet"


def _advice(standing: Standing) -> str:
    exercise = standing.exercise
    if standing.error:
        return f"the tests could not be run: {standing.error}"
    if standing.state == "not written":
        return standing.hint or exercise.not_yet_written
    message = next((outcome.message for outcome in standing.outcomes if not outcome.passed), "no test grades it yet")
    message = standing.problem or message
    where = f" in the {standing.answer}" if standing.answer else ""
    return f"exercise {exercise.number} {exercise.name} fails{where}: {message}\n{_how_to_test(standing)}"


def _how_to_test(standing: Standing) -> str:
    if standing.answer.startswith("notebook"):
        return f'to test it again: check("{standing.exercise.name}") in the notebook'
    return f"to run its tests: {standing.exercise.command}"
