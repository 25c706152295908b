"""The command `course`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from .errors import CourseError
from .work.commands import app as work

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
app.add_typer(work)


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


@app.command()
def capstone(
    impl: Annotated[str, typer.Option(help="Whose engine: exercises, or a folder with answers.")] = "exercises",
    model: Annotated[str, typer.Option(help="The model to serve.")] = "target",
    trace: Annotated[Path | None, typer.Option(help="A .jsonl file; the shipped trace if left out.")] = None,
    requests: Annotated[int | None, typer.Option(help="Only the first so many of the trace.", min=2)] = None,
    rate: Annotated[float, typer.Option(help="Requests a second; 0: all at once.", min=0)] = 16.0,
    slots: Annotated[int, typer.Option(help="Your choice: requests served at a time.", min=1)] = 32,
    max_tokens_per_step: Annotated[int, typer.Option(help="Your choice: most tokens a pass.", min=1)] = 512,
    prefix_cache: Annotated[bool, typer.Option(help="Your choice: compute equal beginnings once.")] = True,
    cache_kind: Annotated[str, typer.Option(help="Your choice: float or int8.")] = "float",
    weight_bits: Annotated[int, typer.Option(help="Your choice: 32 or 8.")] = 32,
    draft: Annotated[bool, typer.Option("--prompt-lookup", help="Your choice: guess ahead by looking back.")] = False,
    temperature: Annotated[float, typer.Option(help="0 is greedy.", min=0)] = 0.8,
    top_k: Annotated[int | None, typer.Option(help="Keep the k likeliest tokens.")] = 50,
    top_p: Annotated[float | None, typer.Option(help="Keep the fewest that reach p.")] = 0.95,
    ttft_ms: Annotated[float | None, typer.Option(help="Target; else 1.5 times the reference.")] = None,
    tpot_ms: Annotated[float | None, typer.Option(help="Target; else 1.5 times the reference.")] = None,
    dollars_per_million: Annotated[float | None, typer.Option(help="Target; else 1.5 times the reference.")] = None,
    dollars_per_hour: Annotated[float, typer.Option(help="What an hour of this machine costs.")] = 0.10,
    threads: Annotated[int, typer.Option(help="Threads of the processor; the lessons use one.", min=1)] = 1,
    rounds: Annotated[int, typer.Option(help="Replays of each engine, in turns.", min=1)] = 3,
    plot: Annotated[Path | None, typer.Option(help="Draw the comparison into this file.")] = None,
) -> None:
    """Serve a recorded trace with your own engine, under targets for waiting and price."""
    from .capstone import capstone as run
    from .capstone import draw as draw_verdict
    from .capstone import show

    if weight_bits not in (8, 32):
        raise CourseError(f"--weight-bits is {weight_bits}; it must be 32 or 8")
    engine = {
        "max_running": slots,
        "max_tokens_per_step": max_tokens_per_step,
        "prefix_cache": prefix_cache,
        "cache_kind": cache_kind,
        "draft": "prompt-lookup" if draft else None,
    }
    options = {
        "impl": impl,
        "model": model,
        "trace": None if trace is None else str(trace.resolve()),
        "requests": requests,
        "rate": rate,
        "engine": engine,
        "weight_bits": weight_bits,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "dollars_per_hour": dollars_per_hour,
        "threads": threads,
    }
    targets = {
        "ttft_seconds": ttft_ms and ttft_ms / 1e3,
        "tpot_seconds": tpot_ms and tpot_ms / 1e3,
        "dollars_per_million": dollars_per_million,
    }
    with say.status("starting") as status:
        verdict = run(options, targets, rounds, tell=status.update)
    show(verdict, say)
    if plot is not None:
        draw_verdict(verdict, plot)
        say.print(f"drawn: {plot}")
    if not verdict.is_right or not all(verdict.met.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
