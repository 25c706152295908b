"""The serving engine against static batches, one request at a time, and transformers; and what a shared prefix spares.

`python -m benchmarks.serving` replays the shipped trace, all 64 requests at once, in turns, and shows by a profile
where the engine's time goes. Then 20 conversations share one prefix of about 1,000 tokens, with and without the cache:
the tokens to prefill are counted beforehand, and the time they should take is that of a prompt of as many tokens.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import torch
import typer

import nanolm
import nanolm.engine
from nanolm.cli.bench import ENGINE, ways_to_serve
from nanolm.engine import Engine, Postprocessor
from nanolm.model import NanoLM
from nanolm.varlen import VarlenBatch
from nanolm.workload import Arrival, Replay, Trace, all_at_once, load_trace, replay_engine

from .tools import machine, report

CONVERSATIONS = 20
_NEW_TOKENS = 8


def race(ways: dict[str, Any], trace: Trace, repetitions: int) -> dict[str, list[Replay]]:
    """Return the replays of every way, in rounds in which each has one turn, after a short one that does not count."""
    replays: dict[str, list[Replay]] = {name: [] for name in ways}
    for round_number in range(repetitions + 1):
        for name, way in ways.items():
            done = way(trace if round_number else all_at_once(trace[:4]), lambda n: None)
            if round_number:
                replays[name].append(done)
    return replays


def profile(model: NanoLM, trace: Trace, options: dict[str, Any]) -> dict[str, float]:
    """Return the share of the engine's time in each part of a pass, by a clock around each.

    A profiler would slow down what is Python by its own work and leave the model's pass as it is.
    """
    engine, seconds = Engine(model, **options), Counter()

    def timed(part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            result = call(*args, **options)
            seconds[part] += time.perf_counter() - start
            return result

        return run

    runner = engine.runner
    engine.step = timed("a pass", engine.step)
    engine._schedule = timed("planning", engine._schedule)
    runner.run, runner.forward = timed("running", runner.run), timed("forward", runner.forward)
    give = timed("keeping the books", Postprocessor.__call__)
    with (
        patch.object(Postprocessor, "__call__", give),
        patch.object(nanolm.engine.model_runner, "VarlenBatch", timed("making the batch's tensors", VarlenBatch)),
        patch.object(model, "forward", timed("the model's pass", model.forward)),
    ):
        replay_engine(ENGINE, engine, trace)
    seconds["choosing tokens"] = seconds.pop("running") - seconds.pop("forward")
    whole = seconds.pop("a pass")
    return {part: spent / whole for part, spent in seconds.most_common()}


def shared_prefix(model: NanoLM, prefix_tokens: int, repetitions: int) -> dict[str, Any]:
    """Return tokens to prefill and median time to the first token of conversations with one prefix, cached and not.

    The prediction: a prompt takes as long as one that has only the tokens which are left to run, measured here too.
    """
    generator = torch.Generator().manual_seed(0)

    def tokens(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(1, model.config.vocab_size, (n,), generator=generator).tolist())

    shared, own_tokens, block = tokens(prefix_tokens), 20, 16
    whole, reused = prefix_tokens + own_tokens, prefix_tokens - prefix_tokens % block
    prompts = [shared + tokens(own_tokens) for _ in range(CONVERSATIONS)]
    loads = {"without": prompts, "with": prompts, "as short": [prompt[reused:] for prompt in prompts]}
    rows: dict[str, list[tuple[int, float]]] = {name: [] for name in loads}
    for _ in range(repetitions):
        for name, load in loads.items():
            engine = Engine(model, prefix_cache=name == "with", block_size=block, max_running=CONVERSATIONS)
            # One after another, as conversations come: each prompt has all of the engine, the first finds nothing.
            times = [
                replay_engine(name, engine, [Arrival(0.0, len(p), _NEW_TOKENS, p)]).requests[0].ttft_seconds
                for p in load
            ]
            n_prefilled = sum(record.n_prefill_tokens for record in engine.records)
            rows[name].append((n_prefilled, statistics.median(times[1:])))
    found = {
        name: {"prefilled_tokens": of[0][0], "ttft_seconds": statistics.median(seconds for _, seconds in of)}
        for name, of in rows.items()
    }
    found["predicted"] = {
        "prefilled_tokens": whole + (CONVERSATIONS - 1) * (whole - reused),
        "ttft_seconds": found.pop("as short")["ttft_seconds"],
    }
    return {"conversations": CONVERSATIONS, "prefix_tokens": prefix_tokens, "own_tokens": own_tokens, **found}


def measure(model_name: str, slots: int, device: str, quick: bool) -> dict[str, Any]:
    """Return all figures as one dictionary of plain numbers."""
    about, (model, _), repetitions = machine.describe(), nanolm.load(model_name, device), 1 if quick else 3
    trace, options = all_at_once(load_trace()[: 4 if quick else None]), {"max_running": slots}
    with_transformers = not quick and model.device.type == "cpu"
    ways = ways_to_serve(model, nanolm.checkpoint.find_folder(model_name), slots, options, with_transformers)
    replays = race(ways, trace, repetitions)
    rows = []
    for name, of in replays.items():
        ratios = [e.tokens_per_second / o.tokens_per_second for e, o in zip(replays[ENGINE], of, strict=True)]
        rows.append(
            {
                "way": name,
                "tokens_per_second": statistics.median(replay.tokens_per_second for replay in of),
                "engine_times_as_fast": statistics.median(ratios),
                "ttft_seconds": statistics.median(replay.ttft_seconds() for replay in of),
                "end_to_end_seconds": statistics.median(replay.end_to_end_seconds() for replay in of),
                "same_tokens": of[0].texts == replays[ENGINE][0].texts,
            }
        )
    engine = Engine(model, **options)
    replay_engine(ENGINE, engine, trace)
    setting = {"requests": len(trace), "tokens": sum(a.n_output_tokens for a in trace), "slots": slots}
    return {
        "machine": {**about, "device": device if device == "cpu" else torch.cuda.get_device_name(model.device)},
        "setting": {**setting, "prompt_tokens": sum(a.n_prompt_tokens for a in trace), "repetitions": repetitions},
        "rows": rows,
        "own_share": engine.metrics.own_share,
        "profile": profile(model, trace, options),
        "shared_prefix": shared_prefix(model, 32 if quick else 1000, 1 if quick else 3),
    }


def show(figures: dict[str, Any]) -> None:
    """Print both tables and what they say."""
    setting, shared = figures["setting"], figures["shared_prefix"]
    parts = ", ".join(f"{name} {share:.0%}" for name, share in figures["profile"].items())
    notes = [
        f"{machine.one_line(figures['machine'])}; the model is on: {figures['machine']['device']}.",
        f"{setting['requests']} requests at once: {setting['prompt_tokens']:,} prompt tokens, {setting['tokens']:,} "
        f"new ones; {setting['slots']} served at a time; medians of {setting['repetitions']} rounds in turns.",
        f"The engine spends {figures['own_share']:.1%} of its time outside the model's pass. Profiled: {parts}.",
    ]
    rows = [
        [
            row["way"],
            f"{row['tokens_per_second']:,.0f}",
            f"{row['engine_times_as_fast']:.2f}",
            f"{1e3 * row['ttft_seconds']:,.0f}",
            f"{1e3 * row['end_to_end_seconds']:,.0f}",
            "yes" if row["same_tokens"] else "no",
        ]
        for row in figures["rows"]
    ]
    head = ["way", "tokens/s", "engine ×", "TTFT, ms", "answer, ms", "equal"]
    report.show("Serving a trace", notes, head, rows)
    report.show(
        f"{shared['conversations']} conversations with the same first {shared['prefix_tokens']:,} tokens",
        [
            "Predicted: the tokens counted, and the time of a prompt that has only the tokens left to run. That leaves "
            "out what those have to read: the shared keys and values. Medians."
        ],
        ["prefix cache", "prefilled", "TTFT, ms"],
        [
            [name, f"{shared[key]['prefilled_tokens']:,}", f"{1e3 * shared[key]['ttft_seconds']:.1f}"]
            for name, key in (("without", "without"), ("with, predicted", "predicted"), ("with, measured", "with"))
        ],
    )


def main(
    model: Annotated[str, typer.Option(help="A shipped model or a folder.")] = "target",
    slots: Annotated[int, typer.Option(help="Requests served at a time.")] = 32,
    device: Annotated[str, typer.Option(help="cpu or cuda; without transformers on the latter.")] = "cpu",
    threads: Annotated[int, typer.Option(help="Threads.")] = 2,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Measure the serving engine."""
    torch.set_num_threads(threads)
    figures = measure(model, slots, device, quick)
    show(figures)
    print(report.save("serving", figures, results))


if __name__ == "__main__":
    typer.run(main)
