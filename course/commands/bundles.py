"""The commands of `course` for handing out and taking in: release, gradescope, similar."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from .console import say

app = typer.Typer()


@app.command()
def release(
    week: Annotated[int, typer.Argument(help="The week, 4.")],
    into: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("releases"),
    solved_through: Annotated[int, typer.Option(help="Leave the exercises up to this week answered.")] = 0,
) -> None:
    """Make the folder and the archive that students work in: no solution is in it, which is proved line by line.

    The engine is in it and runs; its answers are packed, out of sight and not secret.
    """
    from ..bundles.release import release as run

    with say.status("looking for lines of solutions in every file"):
        written = run(week, into, solved_through)
    for path in written:
        say.print(f"wrote {path.as_posix()}", markup=False)


@app.command()
def gradescope(
    week: Annotated[int, typer.Argument(help="The week, 4.")],
    into: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("releases"),
) -> None:
    """Make an autograder for Gradescope: an archive to upload there, with the tests of the week."""
    from ..bundles.gradescope import gradescope as run

    with say.status("packing the tests, the tool and the engine"):
        written = run(week, into)
    say.print(f"wrote {written.as_posix()}", markup=False)


@app.command()
def similar(
    week: Annotated[int, typer.Argument(help="The week, 4.")],
    submissions: Annotated[list[Path], typer.Argument(help="Folders, archives, notebooks; read, never run.")],
    most: Annotated[int, typer.Option(min=1, help="Pairs to show.")] = 20,
) -> None:
    """Show the pairs of students whose answers look most alike, for a person to read: it proves nothing."""
    from ..gradebook.grade import exercises_of, require
    from ..intake.reading import read_each
    from ..intake.similar import CAVEAT
    from ..intake.similar import similar as run
    from ..intake.submission import Unplaced, sort_by_student

    require(week, submissions)
    handed, unplaced = sort_by_student(submissions)
    left = list[Unplaced](unplaced)
    with say.status("comparing answers"):
        pairs = run(read_each(week, handed, left), exercises_of(week))
    for each in left:
        say.print(escape(f"NOT PLACED: {each}"))
    for pair in pairs[:most]:
        named = ", ".join(f"{name} {likeness:.0%}" for name, likeness in pair.exercises[:5])
        say.print(escape(f"{pair.likeness:4.0%}  {pair.one} and {pair.other}: {named}"))
    say.print(CAVEAT if pairs else "there is nothing to compare: fewer than two students with longer answers")
