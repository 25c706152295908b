"""A seal on what the judge is made of: which functions and classes stood where before an answer came."""

import builtins
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from ..grading.runner import TESTS

_WHOLE = ("course", "nanolm", "_pytest", "pluggy")  # packages, every module of them
_SINGLE = (
    *("builtins", "json", "math", "numpy", "operator", "os", "pytest", "time", "hypothesis", "hypothesis.core"),
    *("torch", "torch.nn", "torch.nn.functional"),
)
_CLASSES = (("torch", "Tensor"), ("torch.nn", "Module"))  # of those, so that their methods stay what they are
_BUILT_IN = frozenset(dir(builtins))


class _Entry(NamedTuple):
    """One name, where it stands, and what stood for its value."""

    place: str
    space: Mapping[str, Any]
    name: str
    value: int
    code: int


class Seal(NamedTuple):
    """What stood where, and which names there were at each place."""

    entries: list[_Entry]
    names: list[tuple[str, Mapping[str, Any], frozenset[str]]]


def sealed() -> Seal:
    """Return what stands for every function, class and module that tests and judge can meet."""
    places = list(_places())
    entries = [
        _Entry(place, space, name, id(value), _code(value))
        for place, space in places
        for name, value in space.items()
        if callable(value) or isinstance(value, ModuleType | property | staticmethod | classmethod)
    ]
    return Seal(entries, [(place, space, frozenset(space)) for place, space in places])


def broken(seal: Seal) -> list[str]:
    """Return the names that stand for something else than when the seal was made, for nothing, or before another."""
    exchanged = [
        f"{place}.{name}"
        for place, space, name, value, code in seal.entries
        if id(now := space.get(name)) != value or _code(now) != code
    ]
    inherited = [f"{module}.{name}" for module, name in _CLASSES]
    added = [
        f"{place}.{name}"
        for place, space, names in seal.names
        if len(space) != len(names)
        for name in space.keys() - names
        if place in inherited or (name in _BUILT_IN and place != "sys.modules")
    ]
    return exchanged + added


def _code(value: Any) -> int:
    return id(value.__code__) if isinstance(value, FunctionType) else 0


def _places() -> Iterator[tuple[str, Mapping[str, Any]]]:
    watched = {name: module for name, module in sys.modules.items() if _is_watched(name, module)}
    yield "sys.modules", sys.modules
    for name, module in watched.items():
        yield name, vars(module)
        for key, value in list(vars(module).items()):
            if isinstance(value, type) and (value.__module__ == name or (name, key) in _CLASSES):
                yield f"{name}.{key}", vars(value)


def _is_watched(name: str, module: ModuleType) -> bool:
    if name in _SINGLE or name.partition(".")[0] in _WHOLE:
        return isinstance(module, ModuleType)
    file = getattr(module, "__file__", None)
    return bool(file) and Path(file).is_relative_to(TESTS)
