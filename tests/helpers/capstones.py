"""Capstones that take no time: a tiny model and trace, a machine made up, and workers in this process."""

import json
from typing import Any

from tiny_checkpoints import write_checkpoint

from course.capstone.goals import Given, Goals, given
from course.capstone.machine import Machine
from course.capstone.run import EngineError
from course.capstone.settings import Choices, Load
from course.capstone.worker import run as run_task
from nanolm.workload import Arrival, all_at_once, save_trace

# A pass of sixteen takes 16 ms and a prompt token 0.1 ms: with prompts as long as answers 909 tokens a second.
MACHINE = Machine("here", "a processor", 1, "2", "model", "today", 0.004, 0.016, 1e-4, 0.004, 1.0)
NO_GOALS = Goals(None, None, None)
EASY = Goals(1e3, 1e3, 1e9)  # met by everything


def write_load(folder, n=8, **changes) -> Load:
    """Write a tiny model and n requests that begin alike into a folder; return the load, all at once."""
    write_checkpoint(folder / "model")
    arrivals = [Arrival(0.0, 6 + i, 7, (20, 30, 40, 50, 60, *range(3, 4 + i))) for i in range(n)]
    save_trace(all_at_once(arrivals), folder / "trace.jsonl")
    sizes = {"model": str(folder / "model"), "trace": str(folder / "trace.jsonl"), "rate": 0.0, "n_checked": n}
    return Load(**sizes | changes)


def at(load: Load, asked: Goals = EASY, machine: Machine = MACHINE) -> Given:
    """Return the load and its goals on a made-up machine."""
    return given(machine, load, asked)


def work_here(task: str, impl: str, load: Load, choices: Choices, seconds: float, **options: Any) -> dict[str, Any]:
    """As `course.capstone.run.work`, without a process: what goes in and out is JSON all the same."""
    asked = json.loads(json.dumps({"load": vars(load), "choices": vars(choices), **options}))
    ran: set[str] = set()
    try:
        return json.loads(json.dumps(run_task(task, impl, ran=ran, **asked)))
    except Exception as error:
        raise EngineError(f"the engine broke: {type(error).__name__}: {error}", sorted(ran)) from error


def served(seconds=1.0, ttft=0.1, tpot=0.01, requests=((0.1, 0.01, 10),) * 4, control=0.004) -> dict[str, Any]:
    """What a timed replay found."""
    times = {"seconds": seconds, "ttft_seconds": ttft, "tpot_seconds": tpot, "control_seconds": [control] * 3}
    counts = {"n_blocks": 8, "peak_blocks": 8, "mean_running": 2.0, "n_preemptions": 1, "n_evicted": 3, "hit_rate": 0.5}
    return times | counts | {"requests": [list(request) for request in requests], "acceptance_rate": None}
