"""The reference of one exercise taken out of a process: its functions stay, for their names; their code is gone."""

import functools
import importlib
from types import FunctionType
from typing import Any

from ..building.stubs import stub_file
from ..paths import ROOT, read
from ..registry import Exercise
from ..text.source import Module


def forget(exercise: Exercise) -> None:
    """Exchange the code of what the exercise asks in `nanolm`, for whoever has it by whatever name."""
    module = importlib.import_module(f"nanolm.{exercise.module}")
    for target in exercise.targets:
        owner, _, name = target.rpartition(".")
        for function in _functions(vars(getattr(module, owner) if owner else module)[name]):
            # A function's closure has to fit its code, so the names of both stay the same.
            function.__code__ = _gone.__code__.replace(
                co_freevars=function.__code__.co_freevars, co_name=function.__code__.co_name
            )


def hidden(exercise: Exercise) -> dict[str, str]:
    """Return what must not be read beside this exercise, by path: the engine's file as a stub, and compiled files."""
    path = ROOT / "nanolm" / exercise.file
    stub = stub_file(Module.parse(exercise.module, read(path)), [exercise])
    return {str(path): stub, str(path.parent / "__pycache__"): ""}


def _gone(*_arguments: Any, **_options: Any) -> Any:
    raise RuntimeError("the answer called nanolm's own function of this exercise, which is not there: it is to be written")


def _functions(value: Any) -> list[FunctionType]:
    """The functions inside a property, a static or class method, a cache or a decorator's wrapper, the wrapper too."""
    if isinstance(value, property):
        parts = (value.fget, value.fset, value.fdel)
        return [function for part in parts if part is not None for function in _functions(part)]
    if isinstance(value, staticmethod | classmethod):
        return _functions(value.__func__)
    if isinstance(value, functools.cached_property):
        return _functions(value.func)
    if hasattr(value, "cache_clear"):
        value.cache_clear()
    inside = getattr(value, "__wrapped__", None)
    return [*([value] if isinstance(value, FunctionType) else []), *(_functions(inside) if inside else [])]
