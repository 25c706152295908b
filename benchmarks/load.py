"""The engine under load: what a full pool, a draft, a small pool and long neighbours cost, each against its absence.

`python -m benchmarks.load` runs five pairs in turns on the shipped target, one thread:

1. a pass of 64 decoding requests, in a pool full of 64,000 cached blocks of other prompts, and in one with room;
2. requests with a draft model, with prompt look-up, and without a draft, greedy and at temperature 1: 1, 4, 16, and
   48 of which 16 run at a time, where the last few that still run weigh less;
3. a pool too small for all, with and without blocks in reserve: how many positions are run twice;
4. a short request behind 31 prompts of 1,500 tokens, first come first served, and with short ones let pass;
5. a request of 1,900 tokens beside 15 of 64, and 16 of 64: seconds of a decode pass, beside the bytes that each reads.
"""

import math
import statistics
import time
from functools import partial
from typing import Annotated

import torch
import typer

import nanolm
from nanolm.engine import Engine
from nanolm.model import NanoLM
from nanolm.sampling import SamplingParams
from nanolm.workload import load_trace

from .tools import machine, report
from .tools.turns import by_rounds

GREEDY = SamplingParams(temperature=0.0, end_tokens=())
SAMPLED = SamplingParams(temperature=1.0, end_tokens=())
Rounds = dict[str, list[float]]  # what each way gave, by name and round; one round where nothing is timed


def seconds_of_a_pass(engine: Engine, n: int = 10) -> float:
    """Return the median seconds of the next n passes."""
    seconds = []
    for _ in range(n):
        started = time.perf_counter()
        engine.step()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def decoding(model: NanoLM, lengths: list[int], n_new: int, **options: int) -> Engine:
    """Return an engine whose requests, of these prompt lengths, all decode and will for n_new passes."""
    engine = Engine(model, max_running=len(lengths), reserve=0.0, **options)
    for i, length in enumerate(lengths):
        engine.add_request([1 + (i * 37 + k * 11) % 1000 for k in range(length)], n_new, GREEDY)
    while engine.scheduler.waiting or any(not request.is_decoding for request in engine.scheduler.running):
        engine.step()
    return engine


def fill_pool(engine: Engine) -> None:
    """Let the prefix cache remember blocks of other prompts until none is free, as in a server after a while."""
    scheduler, text = engine.scheduler, 0
    size, prefix, allocator = scheduler.block_size, scheduler.prefix, scheduler.allocator
    assert prefix is not None
    while allocator.n_free:
        blocks = [allocator.allocate() for _ in range(min(64, allocator.n_free))]
        prefix.insert([1001 + text, *range(len(blocks) * size - 1)], blocks)  # nothing is computed for this
        for block in blocks:
            allocator.free(block)
        text += 1


def full_pool(model: NanoLM, rounds: int, n_cached: int = 64_000) -> Rounds:
    """A pass at 64 decodes in a pool with room, and in one that cached blocks fill, where each new block evicts one."""
    n_new, size = 12 * (rounds + 2), 4
    n_needed = 64 * (8 + n_new) // size
    empty = decoding(model, [8] * 64, n_new, block_size=size, n_blocks=n_needed)
    full = decoding(model, [8] * 64, n_new, block_size=size, n_blocks=64 * 2 + n_cached)
    fill_pool(full)
    ways = {
        "room in the pool": partial(seconds_of_a_pass, empty),
        f"{n_cached:,} cached blocks": partial(seconds_of_a_pass, full),
    }
    return by_rounds(ways, rounds)


def drafts(model: NanoLM, draft: NanoLM, sampling: SamplingParams, n: int, at_a_time: int, rounds: int) -> Rounds:
    """Tokens a second of n requests of 96 new tokens, so many at a time, with each kind of draft."""
    prompts = [arrival.prompt for arrival in load_trace() if arrival.prompt][:n]

    def serve(engine: Engine) -> float:
        started = time.perf_counter()
        texts = engine.generate(prompts, 96, sampling, range(n))
        return sum(map(len, texts)) / (time.perf_counter() - started)

    kinds = {"no draft": None, "draft model": draft, "prompt look-up": "prompt-lookup"}
    engines = {
        name: Engine(model, draft=kind, prefix_cache=False, max_running=at_a_time) for name, kind in kinds.items()
    }
    return by_rounds({name: lambda engine=engine: serve(engine) for name, engine in engines.items()}, rounds)


def small_pool(model: NanoLM) -> Rounds:
    """The share of positions that are run twice where 48 blocks are too few for 32 requests, by reserve."""
    shares = {}
    trace = [arrival for arrival in load_trace() if arrival.prompt][:32]
    for reserve in (0.0, 0.125, 0.25, 0.5):
        engine = Engine(model, n_blocks=48, prefix_cache=False, reserve=reserve)
        engine.generate([arrival.prompt for arrival in trace], [arrival.n_output_tokens for arrival in trace], GREEDY)
        shares[f"{reserve:.1%} in reserve"] = [engine.metrics.again_share]
    return shares


def short_behind_long(model: NanoLM) -> Rounds:
    """Seconds to the first token of a short request behind 31 prompts of 1,500 tokens."""
    waits = {}
    for name, max_overtakes in (("first come, first served", 0), ("short ones let pass", 4)):
        engine = Engine(model, n_blocks=4000, max_overtakes=max_overtakes, prefix_cache=False)
        for i in range(31):
            engine.add_request([1 + (i + k) % 1000 for k in range(1500)], 8, GREEDY)
        short = engine.request(engine.add_request([5] * 20, 1, GREEDY))
        while short.finish_reason is None:
            engine.step()
        waits[name] = [short.metrics.ttft_seconds]
    return waits


def long_among_short(model: NanoLM, rounds: int) -> tuple[Rounds, float]:
    """Seconds of a decode pass with and without one long request, and the ratio of the bytes that they read."""
    lengths = {"16 of 64": [64] * 16, "15 of 64 and one of 1,900": [64] * 15 + [1900]}
    n_new = 12 * (rounds + 2)
    engines = {name: decoding(model, each, n_new) for name, each in lengths.items()}
    weights = sum(parameter.nbytes for parameter in model.parameters())
    of_a_position = model.new_paged_cache(1, 1).block_bytes
    read = [weights + of_a_position * sum(each) for each in lengths.values()]
    ways = {name: lambda engine=engine: seconds_of_a_pass(engine) for name, engine in engines.items()}
    return by_rounds(ways, rounds), read[1] / read[0]


def compared(table: Rounds) -> list[list[str]]:
    """Return a row for each way: its median, and the median, least and largest of its ratio to the first, by round.

    Rounds beside each other meet the same machine, so their ratio says more than that of two medians.
    """
    first, rows = next(iter(table.values())), []
    for name, values in table.items():
        ratios = [value / of_first if of_first else math.nan for value, of_first in zip(values, first, strict=True)]
        spread = f"{min(ratios):.2f}, {max(ratios):.2f}" if len(ratios) > 1 else ""
        rows.append([name, f"{statistics.median(values):.4g}", f"{statistics.median(ratios):.2f}", spread])
    return rows


def main(rounds: Annotated[int, typer.Option(min=1, help="turns of each way")] = 5) -> None:
    """Run the five, and print each with its ratio."""
    torch.set_num_threads(1)
    model, draft = nanolm.load("target")[0], nanolm.load("draft")[0]
    tables = {"seconds of a pass, 64 decoding": full_pool(model, rounds)}
    for name, sampling in (("greedy", GREEDY), ("temperature 1", SAMPLED)):
        for n, at_a_time in ((1, 1), (4, 4), (16, 16), (48, 16)):
            title = f"tokens/s, {n} requests{f', {at_a_time} at a time' if n > at_a_time else ''}, {name}"
            tables[title] = drafts(model, draft, sampling, n, at_a_time, rounds)
    tables["share of positions run twice, 48 blocks"] = small_pool(model)
    tables["seconds to a short one's first token"] = short_behind_long(model)
    tables["seconds of a decode pass"], ratio = long_among_short(model, rounds)
    rows = [[title, *row] for title, table in tables.items() for row in compared(table)]
    notes = [machine.one_line(machine.describe()), f"The last pair reads bytes in the ratio 1 : {ratio:.2f}."]
    report.show("The engine under load", notes, ["what", "how", "median", "to the first", "from, to"], rows)


if __name__ == "__main__":
    typer.run(main)
