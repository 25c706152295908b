"""What it costs to watch an engine: its tokens a second with 0, 1 and 10 watchers, in turns.

`python -m benchmarks.http.watching` serves a load with the shipped target by `AsyncEngine`, as `nanolm serve` does.
Each watcher reads frames as fast as they come; each number of watchers has one turn a round, on an engine of its own.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import nanolm
from nanolm.engine import Engine
from nanolm.model import NanoLM
from nanolm.sampling import SamplingParams
from nanolm.serving import AsyncEngine
from nanolm.watching import Feed, Watcher, words_of

from ..tools import machine, report

WATCHERS = (0, 1, 10)
_RULES = SamplingParams(0.0, end_tokens=())


async def served(engine: Engine, prompts: Sequence[list[int]], n_new: int, n_watchers: int, word: Any) -> float:
    """Return the tokens a second at which an engine serves prompts that come together."""
    thread = AsyncEngine(engine, max_waiting=len(prompts))
    feed = Feed(engine, thread.call, word)
    thread.on_drain = feed.close
    thread.start()
    feed.start()
    watchers = [asyncio.ensure_future(_read(feed.enter())) for _ in range(n_watchers)]
    started = time.perf_counter()
    group = await thread.submit([{"prompt": p, "max_new_tokens": n_new, "sampling": _RULES} for p in prompts])
    while group.going:
        await group.next()
    seconds = time.perf_counter() - started
    await thread.close()
    await asyncio.gather(*watchers)
    return len(prompts) * n_new / seconds


async def _read(watcher: Watcher) -> int:
    return sum([len(event) async for event in watcher.events()])


def race(model: NanoLM, prompts: Sequence[list[int]], n_new: int, rounds: int, word: Any) -> dict[int, list[float]]:
    """Return the tokens a second of every round, by the number of watchers; a first round does not count."""
    rates: dict[int, list[float]] = {n: [] for n in WATCHERS}
    for number in range(rounds + 1):
        for n in WATCHERS if number % 2 else WATCHERS[::-1]:
            rate = asyncio.run(served(Engine(model), prompts, n_new, n, word))
            if number:
                rates[n].append(rate)
    return rates


def main(
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
    quick: Annotated[bool, typer.Option("--quick", help="Few tokens: only to see that it runs.")] = False,
) -> None:
    """Measure, print the table, write the JSON file."""
    rounds, n_requests, n_new = (1, 3, 4) if quick else (9, 32, 160)
    model, tokenizer = nanolm.load("target")
    prompts = [tokenizer.encode(f"ROMEO\nSpeak of hour {i}.\n") for i in range(n_requests)]
    about = machine.describe()
    rates = race(model, prompts, n_new, rounds, words_of(tokenizer))
    # In a round all have had the same machine: rounds are compared, and then their median taken.
    cost = {n: statistics.median(1 - b / a for a, b in zip(rates[0], rates[n], strict=True)) for n in WATCHERS}
    rows = [[str(n), f"{statistics.median(rates[n]):,.0f}", f"{cost[n]:.1%}"] for n in WATCHERS]
    notes = [f"{n_requests} requests of {n_new} tokens at once, {rounds} rounds; {machine.one_line(about)}."]
    report.show("Watching", notes, ["watchers", "tokens/s", "cost"], rows)
    print(report.save("watching", {"machine": about, "tokens_per_second": rates, "cost": cost}, results))


if __name__ == "__main__":
    typer.run(main)
