"""This checkout against another one, an older say: the same work in turns, each in a process of its own, on one thread.

`python -m benchmarks.against FOLDER` runs decoding at batch 1, passes of the engine with 1, 8 and 32 requests, and
speculation in both, round after round, and counts the operations of a decode step. A figure is the median over the
rounds of (the other's seconds / ours): above 1, this checkout is the faster.
"""

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from course.paths import ROOT
from nanolm.checkpoint import find_folder

from .tools import machine, report
from .tools.turns import interval
from .tools.worker import Worker

ENGINE_BATCHES = (1, 8, 32)
OPERATIONS = "operations a step"
WORKS = ("decode, a token", *(f"engine, a pass of {n}" for n in ENGINE_BATCHES), "speculation, a token", OPERATIONS)

# What each process runs, with names that both checkouts have. It says whose code it is, then answers each line that it
# reads, the name of a work, with a line.
_WORKER = """
import json, sys, time
import nanolm
print(json.dumps(nanolm.__file__), flush=True)
import torch
torch.set_num_threads(1)
from nanolm.engine import Engine
try:
    from nanolm.machine import count_operations, decode_step_of
    from nanolm.sampling import SamplingParams
    from nanolm.speculative import speculate
except ImportError:  # a checkout from before the rooms
    from nanolm.drafts import speculate
    from nanolm.prediction import count_operations, decode_step_of
    from nanolm.sampling import Sampling as SamplingParams

model, _ = nanolm.load(sys.argv[1])
draft, _ = nanolm.load(sys.argv[2])
unending = SamplingParams(temperature=0.0, end_tokens=())
prompt = list(range(1, 65))

def decode():
    stream = model.stream([prompt], 97, unending)
    next(stream)
    start = time.perf_counter()
    for _ in stream:
        pass
    return (time.perf_counter() - start) / 96

def engine(n):
    serving = Engine(model, max_running=n, prefix_cache=False)
    for i in range(n):
        serving.add_request([i + 1, *prompt[1:]], 40, unending)
    while len(serving.scheduler.running) < n or not all(each.is_decoding for each in serving.scheduler.running):
        serving.step()
    start = time.perf_counter()
    for _ in range(30):
        serving.step()
    return (time.perf_counter() - start) / 30

def speculation():
    start = time.perf_counter()
    speculate(model, draft, prompt, 96, 4, unending)
    return (time.perf_counter() - start) / 96

def operations():
    return count_operations(decode_step_of(model))

calls = [decode, *[lambda n=n: engine(n) for n in json.loads(sys.argv[4])], speculation, operations]
works = dict(zip(json.loads(sys.argv[3]), calls, strict=True))
for line in sys.stdin:
    print(json.dumps(works[json.loads(line)]()), flush=True)
"""


def started(checkout: Path, model: str, draft: str) -> Worker:
    """Return a process that imports one checkout and runs what it is told: asked for a work, it says the seconds.

    Raises:
        ValueError: the process imports another checkout than the one asked for, or ends before it answers.
    """
    command = [sys.executable, "-c", _WORKER, model, draft, json.dumps(WORKS), json.dumps(ENGINE_BATCHES)]
    worker = Worker(f"checkout {checkout}", command, checkout)
    try:
        imported = Path(worker.answer())
        if not imported.is_relative_to(checkout):
            raise ValueError(f"checkout is {checkout}, and a process started there imports {imported}")
    except BaseException:
        worker.stop()
        raise
    return worker


def race(ours: Callable[[str], float], theirs: Callable[[str], float], rounds: int) -> list[dict[str, Any]]:
    """Return for each work the medians of both, and of `rounds` ratios theirs / ours with its interval (`interval`)."""
    rows = []
    for work in WORKS:
        ours(work), theirs(work)  # the first turn warms up
        # Who goes first changes from round to round: neither always finds the processor as the other has left it.
        pairs = []
        for turn in range(rounds):
            if turn % 2:
                their = theirs(work)
                pairs.append((ours(work), their))
            else:
                pairs.append((ours(work), theirs(work)))
        ratios = [their / our for our, their in pairs]
        low, high = interval(ratios)
        medians = {"ours": statistics.median(our for our, _ in pairs), "theirs": statistics.median(t for _, t in pairs)}
        rows.append({"work": work, **medians, "ratio": statistics.median(ratios), "low": low, "high": high})
    return rows


def main(
    checkout: Annotated[Path, typer.Argument(help="Folder of the other checkout.")],
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each.")] = 15,
    model: Annotated[str, typer.Option(help="A shipped model or a folder.")] = "target",
    draft: Annotated[str, typer.Option(help="What drafts for it.")] = "draft",
    quick: Annotated[bool, typer.Option("--quick", help="One round, to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Race this checkout against another."""
    torch.set_num_threads(1)
    about, checkout, rounds, workers = machine.describe(), checkout.resolve(), 1 if quick else rounds, []
    try:
        for folder in (ROOT, checkout):  # both load the same weights
            workers.append(started(folder, str(find_folder(model).resolve()), str(find_folder(draft).resolve())))
        ours, theirs = (worker.ask for worker in workers)
        rows = race(ours, theirs, rounds)
    finally:
        for worker in workers:
            worker.stop()
    notes = [
        f"{machine.one_line(about)}.",
        f"Ours is {ROOT}, theirs {checkout}. Medians of {rounds} rounds in turns, in ms. ×: theirs over ours, and the "
        "interval that holds the median of such ratios in 95 of 100 races.",
    ]
    cells = []
    for row in rows:
        sizes = [
            f"{row[who]:.0f}" if row["work"] == OPERATIONS else f"{1e3 * row[who]:.3f}" for who in ("ours", "theirs")
        ]
        cells.append([row["work"], *sizes, f"{row['ratio']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}"])
    report.show("This checkout and another", notes, ["work", "ours", "theirs", "×", "95 %"], cells)
    setting = {"ours": str(ROOT), "theirs": str(checkout), "model": model, "draft": draft, "rounds": rounds}
    print(report.save("against", {"machine": about, "setting": setting, "rows": rows}, results))


if __name__ == "__main__":
    typer.run(main)
