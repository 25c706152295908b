"""What it costs to watch an engine, with 0, 1 and 10 watchers in turns: tokens a second, and seconds of the processor.

`python -m benchmarks.http.watching` serves a load with the shipped target by `AsyncEngine`, as `nanolm serve` does, on
one thread. Each watcher reads frames as fast as they come; each number of watchers has one turn a round, on an engine
of its own. Tokens a second say what everything together does, on a machine that does nothing else. What the camera and
the watchers compute is counted as well, which other work on the machine changes little.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import nanolm
from nanolm.engine import Engine
from nanolm.model import NanoLM
from nanolm.sampling import SamplingParams
from nanolm.serving import AsyncEngine
from nanolm.watching import Camera, Feed, Watcher, words_of

from ..tools import machine, report
from ..tools.turns import by_rounds, interval

WATCHERS = (0, 1, 10)
_RULES = SamplingParams(0.0, end_tokens=())
_LOOKS = ("turn_on", "ran", "passed", "flush_new")  # what is called of a camera in the engine's thread


@dataclass
class Turn:
    """What one turn took.

    Attributes:
        tokens_per_second: of all requests.
        engine: seconds that the engine's thread computed, those of its camera among them.
        camera: of these, what its camera took.
        loop: seconds that the event loop's thread computed: it hands out tokens and frames, and reads for the watchers.
    """

    tokens_per_second: float = 0.0
    engine: float = 0.0
    camera: float = 0.0
    loop: float = 0.0


@dataclass
class Cost:
    """Shares by round: of tokens a second that are lost, and of the processor's seconds that watching adds."""

    of_rate: list[float] = field(default_factory=list)
    of_processor: list[float] = field(default_factory=list)


async def served(engine: Engine, prompts: Sequence[list[int]], n_new: int, n_watchers: int, word: Any) -> Turn:
    """Serve prompts that come together, and return what that took."""
    turn = Turn()
    thread = AsyncEngine(engine, max_waiting=len(prompts))
    feed = Feed(engine, thread.call, word)
    _count(feed.camera, turn)
    thread.on_drain = feed.close
    thread.start()
    feed.start()
    engine_began = await _now_in(thread)
    loop_began, started = time.thread_time(), time.perf_counter()
    watchers = [asyncio.ensure_future(_read(feed.enter())) for _ in range(n_watchers)]
    group = await thread.submit([{"prompt": p, "max_new_tokens": n_new, "sampling": _RULES} for p in prompts])
    while group.going:
        await group.next()
    turn.tokens_per_second = len(prompts) * n_new / (time.perf_counter() - started)
    turn.loop = time.thread_time() - loop_began
    turn.engine = await _now_in(thread) - engine_began
    await thread.close()
    await asyncio.gather(*watchers)
    return turn


def _count(camera: Camera, turn: Turn) -> None:
    """Let a camera add what it computes to a turn's figures."""

    def counted(look: Callable[..., None], *args: Any) -> None:
        began = time.thread_time()
        look(*args)
        turn.camera += time.thread_time() - began

    for name in _LOOKS:
        setattr(camera, name, partial(counted, getattr(camera, name)))


async def _now_in(thread: AsyncEngine) -> float:
    """The seconds that the engine's thread has computed until now."""
    loop = asyncio.get_running_loop()
    said: asyncio.Future[float] = loop.create_future()

    def tell() -> None:
        loop.call_soon_threadsafe(said.set_result, time.thread_time())

    thread.call(tell)
    return await said


async def _read(watcher: Watcher) -> int:
    return sum([len(event) async for event in watcher.events()])


def race(model: NanoLM, prompts: Sequence[list[int]], n_new: int, rounds: int, word: Any) -> dict[int, list[Turn]]:
    """Return every round's turns, by the number of watchers."""

    def turn(n_watchers: int) -> Turn:
        return asyncio.run(served(Engine(model), prompts, n_new, n_watchers, word))

    return by_rounds({n: partial(turn, n) for n in WATCHERS}, rounds)


def costs(turns: dict[int, list[Turn]]) -> dict[int, Cost]:
    """Return what watching costs. In a round all have had the same machine, so each is compared with its round's."""
    found = {n: Cost() for n in WATCHERS if n}
    for n, cost in found.items():
        for none, some in zip(turns[0], turns[n], strict=True):
            cost.of_rate.append(1 - some.tokens_per_second / none.tokens_per_second)
            cost.of_processor.append((some.camera + some.loop - none.loop) / (none.engine + none.loop))
    return found


def _share(shares: list[float]) -> str:
    low, high = interval(shares)
    return f"{statistics.median(shares):.1%} ({low:.1%} to {high:.1%})"


def main(
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each number of watchers.")] = 20,
    quick: Annotated[bool, typer.Option("--quick", help="Few tokens: only to see that it runs.")] = False,
) -> None:
    """Measure, print the table, write the JSON file."""
    torch.set_num_threads(1)
    rounds, n_requests, n_new = (1, 3, 4) if quick else (rounds, 32, 160)
    model, tokenizer = nanolm.load("target")
    prompts = [tokenizer.encode(f"ROMEO\nSpeak of hour {i}.\n") for i in range(n_requests)]
    about = machine.describe()
    turns = race(model, prompts, n_new, rounds, words_of(tokenizer))
    found = costs(turns)
    rates = {n: statistics.median(turn.tokens_per_second for turn in turns[n]) for n in WATCHERS}
    rows = [["0", f"{rates[0]:,.0f}", "", ""]]
    rows += [[str(n), f"{rates[n]:,.0f}", _share(c.of_rate), _share(c.of_processor)] for n, c in found.items()]
    notes = [
        f"{n_requests} requests of {n_new} tokens at once, {rounds} rounds, 1 thread; {machine.one_line(about)}.",
        "Costs are medians of the rounds, and between which two rounds the true one lies in 95 of 100 runs.",
    ]
    report.show("Watching", notes, ["watchers", "tokens/s", "fewer tokens/s", "more of the processor"], rows)
    kept = {n: [asdict(turn) for turn in each] for n, each in turns.items()}
    cost = {n: asdict(each) for n, each in found.items()}
    print(report.save("watching", {"machine": about, "turns": kept, "cost": cost}, results))


if __name__ == "__main__":
    typer.run(main)
