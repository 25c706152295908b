"""The command `course`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from .errors import CourseError

say = Console(highlight=False, soft_wrap=True)


class _App(typer.Typer):
    """A CourseError ends the command with its message and exit code 1, not with a traceback."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except CourseError as error:
            Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]error:[/red] {escape(str(error))}")
            sys.exit(1)


app = _App(no_args_is_help=True, add_completion=False, help="Build, check and follow the course.")


@app.command()
def build(
    paths: Annotated[list[Path] | None, typer.Argument(help="With --force: overwrite only these.")] = None,
    force: Annotated[bool, typer.Option(help="Overwrite files that were edited by hand, answers included.")] = False,
) -> None:
    """Make the notebooks, exercises/ and the list of exercises from the lessons in solutions/."""
    from .build import build as run

    if paths and not force:
        raise CourseError("paths say what to overwrite: course build --force PATH")
    outcome = run(force=force and not paths, overwrite=[path.as_posix() for path in paths or []])
    for path in outcome.written:
        say.print(f"wrote {path}")
    for path in outcome.kept:
        say.print(f"left  {path}: it holds answers of yours (course build --force {path} gives the empty one back)")
    if not outcome.written:
        say.print("everything was up to date")


@app.command("check-build")
def check_build() -> None:
    """Build into memory and compare with the files here; exit 1 and name each that differs."""
    from .build import check_build as run

    reports = run()
    for report in reports:
        say.print(escape(report))
    if reports:
        raise typer.Exit(1)
    say.print("every built file matches its source")


@app.command()
def status(
    week: Annotated[int | None, typer.Option(help="Only this week.")] = None,
    impl: Annotated[str, typer.Option(help="Whose answers: exercises, nanolm, or a folder.")] = "exercises",
) -> None:
    """Say which exercises are written, which pass, and what to do next."""
    from .implementation import chosen
    from .registry import registry
    from .status import show, standings

    exercises = [exercise for exercise in registry() if week in (None, exercise.week)]
    if not exercises and week is not None:
        weeks = sorted({exercise.week for exercise in registry()})
        raise CourseError(f"week is {week}; there are exercises for weeks {', '.join(map(str, weeks))}")
    with say.status(f"running the tests of {len(exercises)} exercises"):
        found = standings(exercises, chosen(impl))
    show(found, say)


@app.command()
def collect(
    notebooks: Annotated[list[Path], typer.Argument(help="Notebooks with answers; they are read, never run.")],
    into: Annotated[Path, typer.Option(help="Folder for the answers; exercises to go on in an editor.")],
) -> None:
    """Take the answers out of notebooks into a folder that NANOLM_IMPL can name."""
    from .collect import collect as run

    for line in run(notebooks, into):
        say.print(line, markup=False)
    say.print(f"to test them: NANOLM_IMPL={into.as_posix()} python -m pytest", markup=False)


@app.command()
def adopt(notebook: Annotated[Path, typer.Argument(help="A solution notebook that was edited by hand.")]) -> None:
    """Take the edits of a solution notebook over into its lesson and the engine, and build again."""
    from .adopt import adopt as run

    for path in run(notebook):
        say.print(f"wrote {path}")


if __name__ == "__main__":
    app()
