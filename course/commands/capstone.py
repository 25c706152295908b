"""The command `course capstone`: options into a run of both engines, and what it found."""

from pathlib import Path
from typing import Annotated

import typer

from nanolm.cli.options import Json, print_json

from ..errors import CourseError
from .console import quiet, say

app = typer.Typer()

_MEGABYTE = 1_000_000


@app.command()
def capstone(
    impl: Annotated[str, typer.Option(help="Whose engine: exercises, or a folder with answers.")] = "exercises",
    slots: Annotated[int, typer.Option(help="Your choice: requests served at a time.", min=1)] = 32,
    max_tokens_per_step: Annotated[int, typer.Option(help="Your choice: most tokens a pass.", min=1)] = 512,
    prefix_cache: Annotated[bool, typer.Option(help="Your choice: compute equal beginnings once.")] = True,
    cache_kind: Annotated[str, typer.Option(help="Your choice: float or int8.")] = "float",
    reserve: Annotated[float, typer.Option(help="Your choice: share of the cache closed to newcomers.")] = 0.25,
    weight_bits: Annotated[int, typer.Option(help="Your choice: 32 or 8.")] = 32,
    draft: Annotated[str, typer.Option(help="Your choice: none, prompt-lookup, or a model such as draft.")] = "none",
    model: Annotated[str, typer.Option(help="The model to serve: target, mixture, smollm2, a folder.")] = "target",
    trace: Annotated[Path | None, typer.Option(help="A .jsonl file; the shipped trace if left out.")] = None,
    requests: Annotated[int | None, typer.Option(help="Only the first so many of the trace.", min=2)] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second; 0: all at once.", min=0)] = None,
    load: Annotated[float, typer.Option(help="Else the rate is this % of the machine's capacity.", min=1)] = 50,
    cache_mb: Annotated[
        float | None, typer.Option(help="Keys' and values' memory, 10⁶ bytes; else 640 positions.", min=0.001)
    ] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.", min=0)] = 0.8,
    top_k: Annotated[int | None, typer.Option(help="Keep the k likeliest tokens.")] = 50,
    top_p: Annotated[float | None, typer.Option(help="Keep the fewest that reach p.")] = 0.95,
    ttft_ms: Annotated[float | None, typer.Option(help="Goal; else 10 passes of sixteen requests.")] = None,
    tpot_ms: Annotated[float | None, typer.Option(help="Goal; else 3 passes of sixteen requests.")] = None,
    dollars_per_million: Annotated[float | None, typer.Option(help="Goal; else 1.5 times what it must cost.")] = None,
    dollars_per_hour: Annotated[float, typer.Option(help="What an hour of this machine costs.")] = 0.10,
    threads: Annotated[int, typer.Option(help="Threads of the processor; the lessons use one.", min=1)] = 1,
    rounds: Annotated[int, typer.Option(help="Timed replays of each engine, in turns.", min=1)] = 3,
    check: Annotated[int, typer.Option(help="Requests whose texts are compared.", min=1)] = 16,
    limit: Annotated[float, typer.Option(help="Most seconds of one process.", min=1)] = 300,
    measure_again: Annotated[bool, typer.Option("--measure-again", help="Measure the machine anew.")] = False,
    goals: Annotated[bool, typer.Option("--goals", help="Only measure: print load and goals, serve nothing.")] = False,
    hand_in: Annotated[Path | None, typer.Option(help="Write choices, answers and results into this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the goals and what was measured into this file.")] = None,
) -> None:
    """Serve a recorded load with your own engine, under goals for waiting and price.

    Exit code 0: parts of yours did work, all texts are right and all goals are met. Else 1.
    """
    from ..capstone import report, run
    from ..capstone.goals import Goals
    from ..capstone.settings import Choices, Load
    from ..leaderboard.hand_in import write_hand_in

    choices = Choices(slots, max_tokens_per_step, prefix_cache, cache_kind, reserve, weight_bits, draft)
    given = Load(
        model=model,
        trace=None if trace is None else str(trace.resolve()),
        requests=requests,
        rate=rate,
        share=load / 100,
        cache_bytes=None if cache_mb is None else round(cache_mb * _MEGABYTE),
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        n_checked=check,
        threads=threads,
        dollars_per_hour=dollars_per_hour,
    )
    asked = Goals(ttft_ms and ttft_ms / 1e3, tpot_ms and tpot_ms / 1e3, dollars_per_million)
    with say.status("starting") as status:
        at = run.setting(given, asked, measure_again, limit, tell=status.update)
    report.show_given(at, say)
    if goals:
        return
    with say.status("starting") as status:
        verdict = run.capstone(impl, at, choices, rounds, limit, tell=status.update)
    report.show(verdict, say)
    if plot is not None:
        report.draw(verdict, plot)
        say.print(f"drawn: {plot}")
    if hand_in is not None:
        write_hand_in(hand_in, impl, choices, verdict)
        say.print(f"to hand in: {hand_in}")
    if not verdict.passed:
        raise typer.Exit(1)


@app.command()
def leaderboard(
    folder: Annotated[Path, typer.Argument(help="Hand-ins, .json files; each is named after its file.")],
    model: Annotated[str, typer.Option(help="The model to serve.")] = "target",
    trace: Annotated[Path | None, typer.Option(help="A .jsonl file; the shipped trace if left out.")] = None,
    requests: Annotated[int | None, typer.Option(help="Only the first so many of the trace.", min=2)] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second; 0: all at once.", min=0)] = None,
    load: Annotated[float, typer.Option(help="Else the rate is this % of the machine's capacity.", min=1)] = 80,
    cache_mb: Annotated[float | None, typer.Option(help="10⁶ bytes; else 640 positions.", min=0.001)] = None,
    ttft_ms: Annotated[float | None, typer.Option(help="Goal; else 10 passes of sixteen requests.")] = None,
    tpot_ms: Annotated[float | None, typer.Option(help="Goal; else 3 passes of sixteen requests.")] = None,
    dollars_per_hour: Annotated[float, typer.Option(help="What an hour of this machine costs.")] = 0.10,
    threads: Annotated[int, typer.Option(help="Threads of the processor.", min=1)] = 1,
    rounds: Annotated[int, typer.Option(help="Timed replays of each, in turns.", min=1)] = 3,
    check: Annotated[int, typer.Option(help="Requests whose texts are compared.", min=1)] = 16,
    limit: Annotated[float, typer.Option(help="Most seconds of one process.", min=1)] = 300,
    measure_again: Annotated[bool, typer.Option("--measure-again", help="Measure the machine anew.")] = False,
    as_json: Json = False,
) -> None:
    """Serve a class's hand-ins again, all under one load, and rank them; this runs their code, as grading does."""
    from ..capstone import report, run
    from ..capstone.goals import Goals
    from ..capstone.settings import Load
    from ..leaderboard import board

    files = sorted(folder.glob("*.json"))
    if not files:
        raise CourseError(f"{folder} holds no .json files; `course capstone --hand-in FILE` writes them")
    given = Load(
        model=model,
        trace=None if trace is None else str(trace.resolve()),
        requests=requests,
        rate=rate,
        share=load / 100,
        cache_bytes=None if cache_mb is None else round(cache_mb * _MEGABYTE),
        n_checked=check,
        threads=threads,
        dollars_per_hour=dollars_per_hour,
    )
    asked = Goals(ttft_ms and ttft_ms / 1e3, tpot_ms and tpot_ms / 1e3, None)
    with (quiet if as_json else say).status("starting") as status:
        at = run.setting(given, asked, measure_again, limit, tell=status.update)
        entries = board.leaderboard(files, at, rounds, limit, tell=status.update)
    if as_json:
        return print_json(board.figures(entries))
    report.show_given(at, say)
    board.show(entries, say)
