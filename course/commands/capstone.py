"""The command `course capstone`: options into a run of both engines, and what it found."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import CourseError
from .console import say

app = typer.Typer()


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
    from ..capstone.capstone import capstone as run
    from ..capstone.capstone import draw as draw_verdict
    from ..capstone.capstone import show

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
