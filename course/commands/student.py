"""The commands of `course` for a student: start, update, reset, check, status, collect, doctor."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from nanolm.cli.options import Json, print_json

from ..errors import CourseError
from ..paths import IS_INSTALLED
from .console import quiet, say

app = typer.Typer()

_FOLDER = typer.Argument(help="Your folder; work/ in the course if left out.")


@app.command()
def start(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Your folder; work/ if left out. Of an installed course: where to lay it out."),
    ] = None,
) -> None:
    """Copy the notebooks to work/, yours to answer; what is there already stays as it is.

    A course installed with pip lays out FOLDER first: notebooks, exercises, tests, and in it work/.
    """
    from ..work.start import start as run
    from ..work.start import start_installed

    _tell(start_installed(folder) if IS_INSTALLED else run(folder))


@app.command()
def update(
    folder: Annotated[Path | None, _FOLDER] = None,
    pull: Annotated[bool, typer.Option("--pull", help="Fetch the course's new version with git first.")] = False,
    old: Annotated[
        Path | None, typer.Option("--from", help="Take answers from an older course's folder, or a backup.")
    ] = None,
) -> None:
    """Bring corrected lessons in and put your answers back, of notebooks and of exercises/; nothing is thrown away."""
    if pull and old is not None:
        raise CourseError("--pull and --from cannot go together: course update --pull first, then --from")
    from ..update.pull import pull as run_pull
    from ..update.update import update as run

    _tell(run_pull(folder) if pull else run(folder, old))


@app.command()
def reset(
    name: Annotated[str, typer.Argument(help="An exercise by number or name, such as 2.4 or apply_rope.")],
    track: Annotated[str | None, typer.Option(help="Only there: notebook or editor.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Your folder; work/ in the course if left out.")] = None,
) -> None:
    """Take an answer out again, so that the exercise is as it was at first; a copy is kept."""
    from ..work.reset import reset as run

    _tell(run(name, track, folder))


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="An exercise by number or name, such as 2.4 or apply_rope.")],
    folder: Annotated[Path | None, typer.Option(help="Your folder; work/ in the course if left out.")] = None,
) -> None:
    """Test one exercise wherever you have answered it, and say what its tests found; exit 1 if no answer passes."""
    from ..work.check import check as run
    from ..work.layout import Work

    with say.status(f"running the tests of {name}"):
        lines, passes = run(name, Work.at(folder))
    _tell(lines)
    if not passes:
        raise typer.Exit(1)


@app.command()
def status(
    number: Annotated[int | None, typer.Argument(metavar="WEEK", help="Only this week.", show_default=False)] = None,
    week: Annotated[int | None, typer.Option(help="The same, by name.")] = None,
    impl: Annotated[
        str | None, typer.Option(help="Only these answers: exercises, nanolm, or a folder; all tracks if left out.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Your folder; work/ in the course if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Say which exercises are written, and where, which pass, and what to do next."""
    from ..grading.implementation import chosen
    from ..grading.status import figures, show, standings
    from ..registry import questions, registry
    from ..work.layout import Work
    from ..work.tracks import in_words, standings_of

    if None not in (number, week) and number != week:
        raise CourseError(f"WEEK is {number} and --week is {week}; give one of them")
    week = number if week is None else week
    exercises = [exercise for exercise in registry() if week in (None, exercise.week)]
    if not exercises and week is not None:
        raise CourseError(f"week is {week}; there are exercises for weeks {_weeks(registry())}")
    remarks, words = [], {}
    with (quiet if as_json else say).status(f"running the tests of {len(exercises)} exercises"):
        if impl is not None:
            found = standings(exercises, chosen(impl))
        else:
            found, remarks = standings_of(exercises, Work.at(folder))
            words = in_words(Work.at(folder), [each for each in questions() if week in (None, each.week)])
    if as_json:
        return print_json(figures(found, words))
    _tell(remarks)
    show(found, say, words)


@app.command()
def collect(
    notebooks: Annotated[list[Path], typer.Argument(help="Notebooks with answers; they are read, never run.")],
    into: Annotated[Path, typer.Option(help="Folder for the answers; exercises to go on in an editor.")],
) -> None:
    """Take the answers out of notebooks into a folder that NANOLM_IMPL can name."""
    from ..work.collect import collect as run

    for line in run(notebooks, into):
        say.print(line, markup=False)
    say.print(f"to test them: NANOLM_IMPL={into.as_posix()} python -m pytest", markup=False)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Look whether this machine and its environment are ready for the course; exit 1 if something has to be done."""
    from ..work.doctor import examine

    findings = examine()
    if as_json:
        print_json([asdict(finding) for finding in findings])
    for finding in [] if as_json else findings:
        say.print(str(finding), markup=False)
    if not all(finding.is_fine for finding in findings):
        raise typer.Exit(1)


def _weeks(exercises: list[Any]) -> str:
    return ", ".join(map(str, sorted({exercise.week for exercise in exercises})))


def _tell(lines: list[str]) -> None:
    for line in lines:
        say.print(line, markup=False)
