"""The capstone: a load served by the student's own engine, in rounds, beside the reference; and what that shows."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from ..errors import CourseError
from ..grading.implementation import REFERENCE
from ..paths import ROOT
from .goals import Given, Goals, given
from .machine import Machine
from .settings import Choices, Load, as_fields
from .suspects import suspects
from .verdict import Check, Verdict

Tell = Callable[[str], None]


class EngineError(CourseError):
    """The engine with a student's parts broke, or took too long.

    Attributes:
        ran: the numbers of the student's exercises that had done any work by then; None where that is not known.
    """

    def __init__(self, message: str, ran: Sequence[str] | None = None) -> None:
        super().__init__(message)
        self.ran = ran


def setting(load: Load, asked: Goals, again: bool = False, seconds: float = 300, tell: Tell = lambda _: None) -> Given:
    """Return the machine, the load with its rate and cache, and the goals.

    Args:
        asked: goals of one's own; None where the formula is to hold.
        again: measure the machine anew, whatever is stored.
        seconds: most seconds of a process.
        tell: is told what runs.

    Raises:
        CourseError: no such model or trace.
    """
    load.recorded()  # a trace that is not there should not cost a measurement
    tell("measuring what this machine can do")
    found = work("machine", REFERENCE, load, Choices(), seconds, again=again)
    load = replace(load, cache_bytes=found["cache_bytes"])
    return given(Machine(**found["machine"]), load, asked)


def capstone(
    impl: str, at: Given, choices: Choices, rounds: int = 3, seconds: float = 300, tell: Tell = lambda _: None
) -> Verdict:
    """Compare the texts, serve the load in rounds, in turns with the reference; return the verdict.

    With none of the parts that did any work the student's own, there is nothing to compare: the reference serves alone.

    Args:
        impl: whose parts.
        at: from `setting`.
        choices: the student's.
        rounds: timed replays of each.
        seconds: most seconds of a process.
        tell: is told what runs.

    Raises:
        CourseError: the engine broke or took too long; the message says where and what to do.
    """
    tell("writing the texts alone, with the reference")
    reference = checked(REFERENCE, at, choices, seconds, together=False)
    try:
        return _compared(impl, at, choices, rounds, seconds, tell, reference)
    except EngineError as error:
        if impl == REFERENCE:
            raise
        tell("it broke: running the tests of your exercises")
        raise CourseError(f"{error}. {suspects(impl, error.ran).in_words()}") from error


def _compared(
    impl: str, at: Given, choices: Choices, rounds: int, seconds: float, tell: Tell, reference: dict[str, Any]
) -> Verdict:
    tell("writing the texts alone, in a tight cache and as chosen, with your parts")
    check = Check.of(checked(impl, at, choices, seconds), reference)
    if impl != REFERENCE and check.exercises_in_texts and not check.is_exact:
        tell("a text differs: running the tests of your exercises")
        check = replace(check, suspects=suspects(impl, check.exercises_in_texts))
    names = [REFERENCE, impl] if check.own_parts else [REFERENCE]
    served: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else names[::-1]:  # nobody is always the second
            tell(f"round {number + 1} of {rounds}: {'the reference' if name == REFERENCE else name}")
            served[name].append(work("serve", name, at.load, choices, seconds))
    return Verdict(at, check, served.get(impl, served[REFERENCE]), served[REFERENCE])


def checked(impl: str, at: Given, choices: Choices, seconds: float, together: bool = True) -> dict[str, Any]:
    """Return the texts, the parts' calls and the plan's lines of one implementation (`worker`).

    Args:
        together: also serve the texts by engines, many at a time.
    """
    facts = {"machine": asdict(at.machine), "goals": asdict(at.goals)}
    return work("check", impl, at.load, choices, seconds, together=together, **facts)


def work(task: str, impl: str, load: Load, choices: Choices, seconds: float, **options: Any) -> dict[str, Any]:
    """Have a worker do a task; return what it found.

    Raises:
        EngineError: it failed, or was not done after so many seconds.
    """
    asked = {"task": task, "impl": impl, "load": as_fields(load), "choices": as_fields(choices), **options}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "course.capstone.worker"],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=seconds,
            cwd=ROOT,
        )
    except subprocess.TimeoutExpired:
        raise EngineError(
            f"the engine from {impl} was not done after {seconds:g} seconds: an endless loop, or far too slow"
        ) from None
    try:
        result = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise EngineError(f"the engine from {impl} ended without a result: {done.stderr.strip()[-500:]}") from None
    if "error" in result:
        where = f" ({result['where']})" if result["where"] else ""
        raise EngineError(f"the engine from {impl} broke: {result['error']}{where}", result["ran"])
    return result
