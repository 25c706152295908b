"""The command `course audit`."""

from typing import Annotated

import typer
from rich.console import Console

from nanolm.cli.options import Json, print_json

from .console import say

app = typer.Typer()


@app.command()
def audit(
    names: Annotated[list[str] | None, typer.Argument(help="Exercises, 4.1 or apply_rope; none: all.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the inputs, to repeat an audit; a new one where absent.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at once.")] = 1,
    weaken: Annotated[
        list[str] | None,
        typer.Option(metavar="TEST", help="Let this test pass whatever it meets, to see what is missed."),
    ] = None,
    mutate: Annotated[
        bool, typer.Option(help="Grade mutants of the reference instead, one small change each.")
    ] = False,
    as_json: Json = False,
    again: Annotated[bool, typer.Option(help="Grade what an audit of the same files has graded before, too.")] = False,
) -> None:
    """Grade planted mistakes and right answers in other styles, and show how often the grader is wrong."""
    from ..audit.report import audited, figures, show, show_mutants
    from ..registry import find, registry

    exercises = [find(name) for name in names] if names else registry()
    rows, seed = audited(exercises, seed, jobs, tuple(weaken or ()), again, mutate)
    if as_json:
        print_json({"seed": seed, "exercises": figures(rows)})
        raise typer.Exit(not mutate and any(row.complaints() for row in rows))
    # A pipe has no width, and a table cut off at 80 columns tells nobody anything.
    wide = Console(highlight=False, soft_wrap=True, width=max(say.width, 124))
    if (show_mutants if mutate else show)(rows, seed, wide):
        raise typer.Exit(1)
