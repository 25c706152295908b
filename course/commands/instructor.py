"""The commands of `course` for whoever writes the lessons: build, check-build, book, adopt."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ..errors import CourseError
from .console import say

app = typer.Typer()


@app.command()
def build(
    paths: Annotated[list[Path] | None, typer.Argument(help="With --force: overwrite only these.")] = None,
    force: Annotated[bool, typer.Option(help="Overwrite files that were edited by hand, answers included.")] = False,
) -> None:
    """Make the notebooks, exercises/ and the list of exercises from the lessons in solutions/."""
    from ..building.build import build as run

    if paths and not force:
        raise CourseError("paths say what to overwrite: course build --force PATH")
    with say.status("building notebooks, exercises/ and the list of exercises"):
        outcome = run(force=force and not paths, overwrite=[path.as_posix() for path in paths or []])
    for path in outcome.written:
        say.print(f"wrote {path}")
    for path in outcome.kept:
        say.print(f"left  {path}: it holds answers of yours (course build --force {path} gives the empty one back)")
    if not outcome.written:
        say.print("everything was up to date")


@app.command("check-build")
def check_build(
    released: Annotated[bool, typer.Option("--released", help="Count answers in exercises/ as differences.")] = False,
) -> None:
    """Build into memory and compare with the files here; exit 1 and name each that differs."""
    from ..building.build import answered
    from ..building.build import check_build as run

    with say.status("building into memory"):
        reports = run(released=released)
    for report in reports:
        say.print(escape(report))
    if answers := [] if released else answered():
        say.print(f"answered here, so not compared: {', '.join(answers)}")
    if reports:
        raise typer.Exit(1)
    say.print(f"every {'other ' if answers else ''}built file matches its source")


@app.command()
def book(
    into: Annotated[Path, typer.Option(help="Folder for the pages; it is replaced.")] = Path("site"),
) -> None:
    """Build the web book: the weeks with what their cells put out, the API, the glossary; without a network."""
    from ..book.book import book as run

    say.print(f"{run(into)} pages in {into.as_posix()}: open {into.as_posix()}/index.html", markup=False)


@app.command()
def adopt(notebook: Annotated[Path, typer.Argument(help="A solution notebook that was edited by hand.")]) -> None:
    """Take the edits of a solution notebook over into its lesson and the engine, and build again."""
    from ..building.adopt import adopt as run

    with say.status("taking the edits over, and building"):
        written = run(notebook)
    for path in written:
        say.print(f"wrote {path}")
