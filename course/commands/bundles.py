"""The commands of `course` for handing out: release, gradescope."""

from pathlib import Path
from typing import Annotated

import typer

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

    for path in run(week, into, solved_through):
        say.print(f"wrote {path.as_posix()}", markup=False)


@app.command()
def gradescope(
    week: Annotated[int, typer.Argument(help="The week, 4.")],
    into: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("releases"),
) -> None:
    """Make an autograder for Gradescope: an archive to upload there, with the tests of the week."""
    from ..bundles.gradescope import gradescope as run

    say.print(f"wrote {run(week, into).as_posix()}", markup=False)
