"""A seal on what the judge is made of: which functions and classes stood where before an answer came."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

from ..grading.runner import TESTS

_WHOLE = ("course", "nanolm", "_pytest", "pluggy", "hypothesis")  # packages, every module of them
_LIBRARIES = ("builtins", "json", "math", "numpy", "operator", "os", "pytest", "time", "torch", "torch.nn.functional")
_CLASSES = (("torch", "Tensor"), ("torch.nn", "Module"))  # of those, so that their methods stay what they are

Seal = dict[tuple[str, str], tuple[int, int]]


def sealed() -> Seal:
    """Return what stands for every function, class and module that tests and judge can meet, by place and name."""
    return {
        (place, name): (id(value), id(value.__code__) if isinstance(value, FunctionType) else 0)
        for place, names in _places()
        for name, value in names
        if callable(value) or isinstance(value, ModuleType | property | staticmethod | classmethod)
    }


def broken(seal: Seal) -> list[str]:
    """Return the names that stand for something else than when the seal was made, or for nothing."""
    now = sealed()
    return [f"{place}.{name}" for (place, name), value in seal.items() if now.get((place, name)) != value]


def _places() -> Iterator[tuple[str, list[tuple[str, object]]]]:
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or not _is_watched(name, module):
            continue
        yield name, list(vars(module).items())
        for key, value in list(vars(module).items()):
            if isinstance(value, type) and (value.__module__ == name or (name, key) in _CLASSES):
                yield f"{name}.{key}", list(vars(value).items())


def _is_watched(name: str, module: ModuleType) -> bool:
    if name in _LIBRARIES or name == "torch.nn" or name.partition(".")[0] in _WHOLE:
        return True
    file = getattr(module, "__file__", None)
    return bool(file) and Path(file).is_relative_to(TESTS)
