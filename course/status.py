"""How far one is: which exercises are written, which pass, and what to do next."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from .implementation import Implementation
from .outcomes import Outcome
from .registry import Exercise
from .runner import run_exercises

_SECONDS = 300  # for all exercises together


@dataclass(frozen=True)
class Standing:
    """One exercise and what its tests found."""

    exercise: Exercise
    outcomes: list[Outcome]
    error: str

    @property
    def state(self) -> str:
        """One of "passes", "fails", "not written"."""
        if self.outcomes and not self.error and all(outcome.passed for outcome in self.outcomes):
            return "passes"
        return "not written" if any(outcome.unwritten for outcome in self.outcomes) else "fails"


def standings(exercises: list[Exercise], implementation: Implementation) -> list[Standing]:
    """Run the tests of all exercises once and return each exercise's own outcomes."""
    if not exercises:
        return []
    run = run_exercises(exercises, implementation, _SECONDS, brief=True)
    return [
        Standing(exercise, [o for o in run.outcomes if not set(o.targets).isdisjoint(exercise.targets)], run.error)
        for exercise in exercises
    ]


def show(found: list[Standing], console: Console) -> None:
    """Print a table per week, its points and minutes, and the next thing to do."""
    for week in sorted({standing.exercise.week for standing in found}):
        of_week = [standing for standing in found if standing.exercise.week == week]
        console.print(_table(week, of_week))
        console.print(_sum(of_week) + "\n")
    console.print(next_step(found), markup=False)


_COLOURS = {"passes": "green", "fails": "red", "not written": "dim"}


def _table(week: int, found: list[Standing]) -> Table:
    table = Table(title=f"Week {week}", title_justify="left", title_style="bold")
    for heading in ("", "exercise", "state", "points", "minutes"):
        table.add_column(heading, justify="right" if heading in ("points", "minutes") else "left")
    for standing in found:
        exercise, state = standing.exercise, standing.state
        failed = sum(not outcome.passed for outcome in standing.outcomes)
        detail = f", {failed} of {len(standing.outcomes)} tests" if state == "fails" and standing.outcomes else ""
        coloured = f"[{_COLOURS[state]}]{state}{detail}[/]"
        table.add_row(exercise.number, exercise.name, coloured, str(exercise.points), str(exercise.minutes))
    return table


def _sum(found: list[Standing]) -> str:
    points = sum(standing.exercise.points for standing in found)
    won = sum(standing.exercise.points for standing in found if standing.state == "passes")
    minutes = sum(standing.exercise.minutes for standing in found if standing.state != "passes")
    return f"{won} of {points} points" + (f", about {minutes} minutes left" if minutes else "")


def next_step(found: list[Standing]) -> str:
    """Return what to do next, with the exact command: mend what fails first, then write the next exercise."""
    for state in ("fails", "not written"):
        for standing in found:
            if standing.state == state:
                return f"next: {_advice(standing)}"
    return "everything passes" if found else "no exercises yet"


def _advice(standing: Standing) -> str:
    exercise = standing.exercise
    if standing.error:
        return f"the tests could not be run: {standing.error}"
    if standing.state == "not written":
        return exercise.not_yet_written
    message = next((outcome.message for outcome in standing.outcomes if not outcome.passed), "no test grades it yet")
    return f"exercise {exercise.number} {exercise.name} fails: {message}\nto run its tests: {exercise.command}"
