"""The command `nanolm bench`: one trace, several ways to serve it, one table; and throughput against latency, drawn."""

import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from .options import BAD_REQUEST, Json, one_line, print_json, threads_of

if TYPE_CHECKING:
    from ..model.decoder import NanoLM
    from ..workload.replay import Replay
    from ..workload.trace import Trace


ENGINE, STATIC, ALONE, TRANSFORMERS = "engine", "static batches", "one at a time", "transformers"
_PERCENTILES = (50, 95)
_COLOURS = {ENGINE: "#0072b2", STATIC: "#d55e00", ALONE: "#009e73", TRANSFORMERS: "#cc79a7"}

Way = Callable[["Trace", Callable[[int], None]], "Replay"]

Model = Annotated[str, typer.Argument(help="A shipped model, a folder, a GGUF file, or smollm2.")]
TraceFile = Annotated[Path | None, typer.Option("--trace", help="A .jsonl file; the shipped trace if left out.")]
Rates = Annotated[
    list[float] | None, typer.Option("--rate", help="Requests a second; may be repeated. Left out: all at once.")
]
Slots = Annotated[int, typer.Option(help="Requests served at a time, by the engine and in a batch.")]
StepTokens = Annotated[int, typer.Option(help="Most tokens in a pass of the engine.")]
Threads = Annotated[int | None, typer.Option(help="Threads of the processor, the same for all; else measured.", min=1)]
Peer = Annotated[bool, typer.Option("--transformers/--no-transformers", help="Also transformers, if installed.")]
Draw = Annotated[Path | None, typer.Option("--plot", help="Draw throughput against latency: a .png, .svg.")]


def bench(
    model: Model = "target",
    trace: TraceFile = None,
    rate: Rates = None,
    slots: Slots = 32,
    max_tokens_per_step: StepTokens = 512,
    threads: Threads = None,
    transformers: Peer = True,
    plot: Draw = None,
    as_json: Json = False,
) -> None:
    """Replay a trace of requests against the engine, static batches and one request at a time, and compare."""
    console = Console(stderr=as_json)  # what is said beside the JSON
    with one_line(BAD_REQUEST):
        if rate and any(not r > 0 for r in rate):
            raise ValueError(f"rate is {min(rate)}; requests arrive at a rate above 0 (leave it out for all at once)")
        import torch

        from ..checkpoint.loading import find_model, load
        from ..workload.trace import at_rate, load_trace

        recorded = load_trace() if trace is None else load_trace(trace)
        engine_options = {"max_running": slots, "max_tokens_per_step": max_tokens_per_step}
        path = find_model(model)
        lacking = packages_lacking(path) if transformers else []
        served = load(path)[0]
        if threads is not None:
            torch.set_num_threads(threads)
        elif (chosen := threads_of(served, slots)) is not None:
            chosen.between_requests()
            console.print(f"threads: {chosen.choice}", soft_wrap=True, highlight=False)
        ways = ways_to_serve(served, path, slots, engine_options, transformers and not lacking)
        if lacking:
            console.print(f"transformers is not measured; not installed: {', '.join(lacking)}.", soft_wrap=True)
        replays: dict[float, list[Replay]] = {}
        for each in rate or [math.inf]:
            replays[each] = run(ways, at_rate(recorded, each), console)
            if not as_json:
                console.print(table(each, replays[each]))
        if as_json:
            print_json(figures(replays))
        else:
            console.print(in_words(replays[max(replays)]), soft_wrap=True, highlight=False)
        if plot is not None:
            draw(replays, plot)


def packages_lacking(path: Path) -> list[str]:
    """Return the packages that transformers would need for the model there, and that are not installed."""
    needed = ["transformers", *(["accelerate"] if path.is_file() else [])]  # its reader of GGUF files asks for that
    return [name for name in needed if find_spec(name) is None]


def ways_to_serve(
    model: "NanoLM", path: Path, slots: int, engine_options: dict[str, Any], transformers: bool
) -> dict[str, Way]:
    """Return what to compare, by name."""
    from ..engine.engine import Engine
    from ..workload.baselines import nanolm_batch, replay_batches, transformers_batch, transformers_model
    from ..workload.replay import replay_engine

    ours = nanolm_batch(model)
    ways: dict[str, Way] = {
        ENGINE: lambda trace, tell: replay_engine(ENGINE, Engine(model, **engine_options), trace, tell),
        STATIC: lambda trace, tell: replay_batches(STATIC, ours, trace, slots, tell),
        ALONE: lambda trace, tell: replay_batches(ALONE, ours, trace, 1, tell),
    }
    if transformers:
        theirs = transformers_batch(transformers_model(path))
        ways[TRANSFORMERS] = lambda trace, tell: replay_batches(TRANSFORMERS, theirs, trace, slots, tell)
    return ways


def run(ways: dict[str, Way], trace: "Trace", console: Console) -> list["Replay"]:
    """Replay the trace in each way, after one short trace that is not counted, and show how far it is."""
    n_tokens = sum(arrival.n_output_tokens for arrival in trace)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    replays = []
    with Progress(*columns, console=console, transient=True) as progress:
        for name, way in ways.items():
            way(_at_once(trace[:2]), lambda n: None)
            task = progress.add_task(name, total=n_tokens)
            replays.append(way(trace, lambda n, task=task: progress.advance(task, n)))
    return replays


def table(rate: float, replays: list["Replay"]) -> Table:
    """Return the comparison: throughput, and the waits that half and 95 % of the requests stay within."""
    when = "all at once" if math.isinf(rate) else f"{rate:g} requests a second"
    n_tokens = sum(map(len, replays[0].texts))
    made = Table(
        title=f"{len(replays[0].requests)} requests, {n_tokens:,} new tokens, {when}",
        caption="Waits in milliseconds: half of the requests stay within the first, 95 % within the second.",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for name in ("", "tokens/s", "first token", "between tokens", "whole answer"):
        made.add_column(name, justify="right" if made.columns else "left", no_wrap=True)
    for replay in replays:
        waits = [
            " / ".join(f"{seconds(percentile) * 1e3:,.0f}" for percentile in _PERCENTILES)
            for seconds in (replay.ttft_seconds, replay.inter_token_seconds, replay.end_to_end_seconds)
        ]
        made.add_row(replay.name, f"{replay.tokens_per_second:,.0f}", *waits)
    return made


def in_words(replays: list["Replay"]) -> str:
    """Say what the table means."""
    engine, *others = replays
    parts = [f"{engine.tokens_per_second / other.tokens_per_second:.2f} times that of {other.name}" for other in others]
    same = all(other.texts == engine.texts for other in others if other.name != TRANSFORMERS)
    equal = "the same tokens" if same else "tokens that differ somewhere (near ties; sums are taken in another order)"
    return f"The engine's throughput is {', '.join(parts)}. All of nanolm's ways wrote {equal}."


def figures(replays: dict[float, list["Replay"]]) -> list[dict[str, Any]]:
    """Return all figures as plain numbers; a rate of None is "all at once"."""
    return [
        {
            "requests_per_second": None if math.isinf(rate) else rate,
            "way": replay.name,
            "tokens_per_second": replay.tokens_per_second,
            "seconds": replay.seconds,
            **{
                f"{name}_seconds_p{percentile}": getattr(replay, f"{name}_seconds")(percentile)
                for name in ("ttft", "inter_token", "end_to_end")
                for percentile in _PERCENTILES
            },
        }
        for rate, of_rate in replays.items()
        for replay in of_rate
    ]


def draw(replays: dict[float, list["Replay"]], path: Path) -> None:
    """Draw throughput against the time of a whole answer: one line a way, one point a rate.

    Raises:
        ValueError: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib: pip install matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for column in zip(*replays.values(), strict=True):
        points = [(replay.tokens_per_second, replay.end_to_end_seconds()) for replay in column]
        axes.plot(*zip(*points, strict=True), "o-", label=column[0].name, color=_COLOURS[column[0].name])
    for rate, (engine, *_) in replays.items():
        label = "all at once" if math.isinf(rate) else f"{rate:g}/s"
        axes.annotate(
            label, (engine.tokens_per_second, engine.end_to_end_seconds()), (4, 4), textcoords="offset points"
        )
    axes.set(xlabel="throughput, new tokens a second", ylabel="median seconds from arrival to last token", yscale="log")
    axes.set_title("Right and low is better: more tokens, shorter waits", loc="left", fontsize=10)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.margins(x=0.1)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def _at_once(trace: "Trace") -> "Trace":
    from ..workload.trace import all_at_once

    return all_at_once(trace)
