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
_REPLACED = {("torch", "manual_seed")}  # by torch itself, when something first needs its compiler
_BUILT_IN = frozenset(dir(builtins))


class Seal(NamedTuple):
    """What stood where when the seal was made; it is looked through after every answer, so it is made to be quick.

    Attributes:
        values: a place, its names, and of each name that matters the identity of its value.
        functions: of those values, by place and name, with the identity of their code.
        names: all that there were at each place.
    """

    values: list[tuple[str, Mapping[str, Any], list[tuple[str, int]]]]
    functions: list[tuple[str, FunctionType, int]]
    names: list[tuple[str, Mapping[str, Any], frozenset[str]]]


def sealed() -> Seal:
    """Return what stands for every function, class and module that tests and judge can meet."""
    places = [
        (place, space, [(name, value) for name, value in space.items() if _matters(place, name, value)])
        for place, space in _places()
    ]
    functions = [
        (f"{place}.{name}", value, id(value.__code__))
        for place, _, items in places
        for name, value in items
        if isinstance(value, FunctionType)
    ]
    values = [(place, space, [(name, id(value)) for name, value in items]) for place, space, items in places]
    return Seal(values, functions, [(place, space, frozenset(space)) for place, space, _ in places])


def _matters(place: str, name: str, value: Any) -> bool:
    watched = callable(value) or isinstance(value, ModuleType | property | staticmethod | classmethod)
    return watched and (place, name) not in _REPLACED


def broken(seal: Seal) -> list[str]:
    """Return the names that stand for something else than when the seal was made, for nothing, or before another."""
    exchanged = [
        f"{place}.{name}"
        for place, space, values in seal.values
        for name, value in values
        if id(space.get(name)) != value
    ]
    recoded = [name for name, function, code in seal.functions if id(function.__code__) != code]
    inherited = [f"{module}.{name}" for module, name in _CLASSES]
    added = [
        f"{place}.{name}"
        for place, space, names in seal.names
        if len(space) != len(names)
        for name in space.keys() - names
        if place in inherited or (name in _BUILT_IN and place != "sys.modules")
    ]
    return exchanged + recoded + added


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
