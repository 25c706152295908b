"""Which exercises a piece of work runs: the very functions that students write, seen by Python itself."""

import importlib
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from course.registry import homes


def code_of(name: str) -> CodeType:
    """Return the code of an exercise, "function" or "Class.method", whatever it is wrapped in."""
    value: Any = importlib.import_module(f"nanolm.{homes()[name]}")
    for part in name.split("."):
        value = vars(value)[part] if isinstance(value, type) else getattr(value, part)
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return value.__code__


def run_by(work: Callable[[], Any], names: Iterable[str]) -> set[str]:
    """Return those of the named functions that were entered while `work` ran."""
    names_of = {code_of(name): name for name in names}
    entered: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            entered.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return {name for code, name in names_of.items() if code in entered}
