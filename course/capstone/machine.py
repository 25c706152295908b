"""What this machine can do with a model: the seconds of three bare passes, without an engine around them.

The passes are the reference's, over one model in its own numbers, whatever a student chose: they know nothing of
slots, caches, quantization or drafts. All goals are multiples of them (`goals`).

On one thread the clock is the processor's (`Clock`): it runs while the passes do and stands while other programs have
their turns, so a busy machine does not move the figures much.
"""

import contextlib
import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from nanolm.machine import cache_folder, processor_name

SIXTEEN = 16  # requests in the pass that the goals count in
_PAST, _PROMPT = 96, 128  # positions cached before a decode pass; tokens of a prompt
_LEAST_ROUNDS, _MOST_ROUNDS, _SECONDS = 5, 40, 2.0
_STEADY = 1.25  # quartiles further apart than this factor: something else ran


@dataclass(frozen=True)
class Machine:
    """One machine as a capstone sees it: seconds of bare passes.

    Attributes:
        name, processor, threads, torch, model: what was measured, and with what.
        date: when.
        one: a pass that writes for one request, with 96 positions cached.
        sixteen: the same for sixteen requests.
        prompt_token: a 128th of a pass over a prompt of 128 tokens.
        products: the matrix products of a pass of sixteen by themselves (`products_of`).
        spread: upper over lower quartile of `sixteen`; near 1 the machine was quiet.
    """

    name: str
    processor: str
    threads: int
    torch: str
    model: str
    date: str
    one: float
    sixteen: float
    prompt_token: float
    products: float
    spread: float

    @property
    def is_steady(self) -> bool:
        """Whether the rounds agreed well enough to keep the figures."""
        return self.spread < _STEADY

    def capacity(self, n_prompt_tokens: float, n_answer_tokens: float) -> float:
        """Return the tokens a second that bare passes of sixteen would write, if answers and prompts are so long.

        A token costs its sixteenth of a pass and its share of the prompt that it answers.
        """
        return 1 / (self.sixteen / SIXTEEN + self.prompt_token * n_prompt_tokens / n_answer_tokens)


def bare_passes(model: Any) -> dict[str, Callable[[], object]]:
    """Return the three passes and the products, to be timed; each can be run as often as one likes."""
    import torch

    def ready(n_rows: int, n_tokens: int, past: int) -> Callable[[], object]:
        cache = model.new_cache(n_rows, past + n_tokens)
        tokens = torch.zeros(n_rows, n_tokens, dtype=torch.long)
        with torch.inference_mode():
            if past:
                model(torch.zeros(n_rows, past, dtype=torch.long), cache, 1)
                cache.advance(past)
        return torch.inference_mode()(lambda: model(tokens, cache, 1))

    passes = {"one": ready(1, 1, _PAST), "sixteen": ready(SIXTEEN, 1, _PAST), "prompt": ready(1, _PROMPT, 0)}
    return passes | {"products": products_of(model)}


def products_of(model: Any) -> Callable[[], object]:
    """Return a call that multiplies every matrix by sixteen rows: no part of a student's, so it can be timed anywhere.

    Run between the passes of an engine, it says how much slower the machine is just then.
    """
    import torch

    weights = [weight for weight in model.parameters() if weight.ndim == 2]
    rows = {weight.shape[-1]: torch.full((SIXTEEN, weight.shape[-1]), 0.01) for weight in weights}

    def multiply() -> None:
        for weight in weights:
            torch.nn.functional.linear(rows[weight.shape[-1]], weight)

    return torch.inference_mode()(multiply)


class Clock:
    """Seconds of computing, for an engine and its replay.

    On one thread those of the processor, and a wait for the next request is jumped over: what comes out is what an
    otherwise idle machine would do. On more threads, which share the work, those of the wall; on Windows too, whose
    processor time comes in steps of a sixtieth of a second.
    """

    def __init__(self, threads: int) -> None:
        self.is_the_processor_s = threads == 1 and os.name != "nt"
        self._jumped = 0.0

    def __call__(self) -> float:
        return (time.thread_time() if self.is_the_processor_s else time.perf_counter()) + self._jumped

    def aside(self, call: Callable[[], object]) -> float:
        """Do something that is not to count; return its seconds."""
        start = self()
        call()
        seconds = self() - start
        self._jumped -= seconds
        return seconds

    def sleep(self, seconds: float) -> None:
        """Wait, or jump."""
        if self.is_the_processor_s:
            self._jumped += seconds
        else:
            time.sleep(seconds)


def time_passes(model: Any, threads: int, most_seconds: float = _SECONDS) -> dict[str, list[float]]:
    """Return the seconds of each bare pass, in rounds in which each has one turn after one that does not count.

    There are at least five rounds, and more while there is time.
    """
    passes, clock, started = bare_passes(model), Clock(threads), time.perf_counter()
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for number in range(1 + _MOST_ROUNDS):
        if number > _LEAST_ROUNDS and time.perf_counter() - started > most_seconds:
            break
        for name, call in passes.items():
            start = clock()
            call()
            if number:
                seconds[name].append(clock() - start)
    return seconds


def measure(model: Any, name: str, threads: int) -> Machine:
    """Return the machine as it is now."""
    seconds = time_passes(model, threads)
    middle = {key: statistics.median(values) for key, values in seconds.items()}
    lower, _, upper = statistics.quantiles(seconds["sixteen"], n=4, method="inclusive")
    return Machine(
        **identity(name, threads),
        date=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        one=middle["one"],
        sixteen=middle["sixteen"],
        prompt_token=middle["prompt"] / _PROMPT,
        products=middle["products"],
        spread=upper / lower,
    )


def identity(model: str, threads: int) -> dict[str, Any]:
    """Return what a stored measurement must agree with."""
    import torch

    return {
        "name": platform.node(),
        "processor": processor_name(),
        "threads": threads,
        "torch": torch.__version__,
        "model": model,
    }


def stored(model: str, threads: int) -> Machine | None:
    """Return what was measured here before, with the same model, threads and torch; None if nothing was."""
    try:
        values = json.loads(_file(model, threads).read_text(encoding="utf-8"))
        if set(values) != {field.name for field in fields(Machine)}:
            return None
        found = Machine(**values)
    except (OSError, ValueError, TypeError):
        return None
    same = all(getattr(found, name) == value for name, value in identity(model, threads).items())
    return found if same and min(found.one, found.sixteen, found.prompt_token, found.products) > 0 else None


def keep(machine: Machine) -> None:
    """Store a measurement beside those of `nanolm.machine`, unless the machine was busy or the folder is locked."""
    if machine.is_steady:
        with contextlib.suppress(OSError):
            file = _file(machine.model, machine.threads)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(asdict(machine), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _file(model: str, threads: int) -> Path:
    plain = "".join(letter if letter.isalnum() else "-" for letter in Path(model).name)
    return cache_folder() / f"capstone-{plain}-{threads}.json"
