"""The reference of an exercise taken out of a process: its functions stay, for their names; their code is gone."""

import contextlib
import functools
import importlib
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from ..building.front_doors import home_of
from ..building.stubs import stub_file
from ..paths import ROOT, read
from ..registry import Exercise
from ..text.source import Module


@contextlib.contextmanager
def gone(targets: Sequence[str]) -> Iterator[None]:
    """Exchange the code of functions and methods of `nanolm` for the length of a `with`, whoever has them as what.

    It is for the length of a test: of an exercise that asks several methods, a test that grades one of them needs the
    reference's others.
    """
    undo: list[tuple[FunctionType, CodeType]] = []
    for target in targets:
        owner, _, name = target.rpartition(".")
        module = importlib.import_module(f"nanolm.{home_of(target)}")
        for function in _functions(vars(getattr(module, owner) if owner else module)[name]):
            code = function.__code__
            undo.append((function, code))
            # A function's closure has to fit its code, so the names of both stay the same.
            function.__code__ = _absent.__code__.replace(co_freevars=code.co_freevars, co_name=code.co_name)
    try:
        yield
    finally:
        for function, code in undo:
            function.__code__ = code


def hidden(exercise: Exercise) -> dict[str, str]:
    """Return what must not be read beside this exercise, by path: the engine's file as a stub, and compiled files."""
    path = ROOT / "nanolm" / exercise.file
    stub = stub_file(Module.parse(exercise.module, read(path)), [exercise])
    return {str(path): stub, str(path.parent / "__pycache__"): ""}


def _absent(*_arguments: Any, **_options: Any) -> Any:
    raise RuntimeError("the answer called nanolm's own function of this exercise: that one is not there, write it here")


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
