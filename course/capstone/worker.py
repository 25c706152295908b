"""One piece of work in a process of its own: `python -m course.capstone.worker` reads options and writes JSON.

The options come on standard input and the result goes to standard output, so that the process which compares a
student's engine with the reference shares nothing with either.
"""

import contextlib
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from nanolm.checkpoint import load as load_model

from ..errors import CourseError
from ..grading.assembly import REFERENCE as REFERENCES
from ..grading.assembly import YOURS, Part, assembled
from ..grading.implementation import REFERENCE, chosen
from ..paths import ROOT
from ..registry import registry
from .goals import Goals, given
from .machine import Machine, keep, measure, stored

# All that computes is imported here: a name taken from a module while parts are in place would stay when they are not.
from .plan import Plan
from .serving import Service, cache_bytes_of
from .settings import Choices, Load
from .tight import expected, tight


def run(
    task: str, impl: str, load: dict[str, Any], choices: dict[str, Any], ran: set[str] | None = None, **options: Any
) -> dict[str, Any]:
    """Do one task with the parts of `impl` in the engine's place; return plain numbers, texts and words.

    Args:
        task: "machine", "check" or "serve".
        impl: whose parts.
        load, choices: the fields of a Load and of Choices.
        ran: gets the numbers of the student's exercises that did any work, if the task breaks, too.
        options: what the task takes besides.
    """
    torch.set_num_threads(load["threads"])
    with assembled(chosen(impl), registry()) as parts:
        try:
            return _TASKS[task](parts, impl, Load(**load), Choices(**choices), **options)
        finally:
            if ran is not None and impl != REFERENCE:
                ran |= {part.exercise.number for part in parts if part.whose == YOURS and part.calls}


def _machine(parts: list[Part], impl: str, load: Load, choices: Choices, again: bool) -> dict[str, Any]:
    """The machine with this model, from disk or measured now, and the cache's bytes."""
    model, _ = load_model(load.model)
    machine = None if again else stored(load.model, load.threads)
    if machine is None:
        machine = measure(model, load.model, load.threads)
        keep(machine)
    return {"machine": asdict(machine), "cache_bytes": cache_bytes_of(load, model, load.recorded())}


def _check(
    parts: list[Part], impl: str, load: Load, choices: Choices, together: bool, **at: dict[str, Any]
) -> dict[str, Any]:
    """The plan's lines, the texts of each way to write them, and the calls of each part in each."""
    calls: dict[str, list[int]] = {}
    n_leaked = 0

    @contextlib.contextmanager
    def place(name: str) -> Iterator[None]:
        before = [part.calls for part in parts]
        yield
        calls[name] = [part.calls - n for part, n in zip(parts, before, strict=True)]

    with place("alone"):  # loading and quantizing is a part of serving
        service = Service(load, choices)
        texts = {"alone": service.alone()}
    if together:
        with place("tight"):
            done = tight(service)
        with place("chosen"):
            texts["chosen"] = service.chosen(texts["alone"])
        texts |= {"tight": done.all_texts, "expected in tight": expected(service, texts["alone"], done)}
        n_leaked = done.n_leaked
    with place("plan"):
        at_given = given(Machine(**at["machine"]), load, Goals(**at["goals"]))
        lines = Plan(at_given, choices, service.config, service.trace, service.cache_bytes).lines()
    described = [_described(part, impl, {name: calls[name][i] for name in calls}) for i, part in enumerate(parts)]
    return {"texts": texts, "plan": lines, "parts": described, "leaked": n_leaked}


def _described(part: Part, impl: str, calls: dict[str, int]) -> dict[str, Any]:
    whose, why = (REFERENCES, "asked for") if impl == REFERENCE else (part.whose, part.why)
    return {"number": part.exercise.number, "part": part.name, "whose": whose, "why": why, "calls": calls}


def _serve(parts: list[Part], impl: str, load: Load, choices: Choices) -> dict[str, Any]:
    """One timed replay."""
    return Service(load, choices).timed()


_TASKS: dict[str, Callable[..., dict[str, Any]]] = {"machine": _machine, "check": _check, "serve": _serve}


def main() -> None:
    """Run once; an error of the student's code becomes a result too, with the place where it happened."""
    options = json.loads(sys.stdin.read())
    ran: set[str] = set()
    try:
        with contextlib.redirect_stdout(sys.stderr):  # a print in an answer must not end up in the JSON
            result = run(ran=ran, **options)
    except Exception as error:
        result = {"error": _in_words(error), "where": _where(error), "ran": sorted(ran)}
    print(json.dumps(result))


def _in_words(error: BaseException) -> str:
    kind = "" if isinstance(error, CourseError | ValueError | OSError) else f"{type(error).__name__}: "
    return "; ".join([f"{kind}{error}", *getattr(error, "__notes__", [])])


def _where(error: BaseException) -> str:
    """The innermost line outside libraries, as "file, line n, in function"."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
    if not frames:
        return ""
    path = Path(frames[-1].filename)
    # Of a folder elsewhere the room and the file: which folder it is was the student's choice.
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else "/".join(path.parts[-2:])
    return f"{name}, line {frames[-1].lineno}, in {frames[-1].name}"


if __name__ == "__main__":
    main()
