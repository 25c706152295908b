"""Plant a mistake in the engine for the length of a `with`: the functions that it changes run changed code.

Functions keep their identity and only their code is exchanged, so whoever has imported them gets the mistake too.
"""

import contextlib
import functools
from collections.abc import Iterator
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from course.paths import ROOT, read

_PLAIN = (int, float, str, tuple, frozenset)  # constants of a module that can be exchanged as they are


@contextlib.contextmanager
def planted(file: str, old: str, new: str) -> Iterator[None]:
    """Run the engine with `old` replaced by `new` in nanolm/<file>.

    Raises:
        ValueError: `old` does not occur exactly once, or the replacement changes nothing that can be exchanged.
    """
    text = read(ROOT / "nanolm" / file)
    if text.count(old) != 1:
        raise ValueError(f"{old!r} occurs {text.count(old)} times in nanolm/{file}; a mistake is planted in one place")
    module = import_module("nanolm." + file.removesuffix(".py").replace("/", "."))
    space: dict[str, Any] = {
        "__name__": module.__name__,
        "__package__": module.__package__,
        "__file__": module.__file__,
    }
    exec(compile(text.replace(old, new), f"nanolm/{file} with a mistake", "exec"), space)
    undo = [*_exchange_code(module, space), *_exchange_constants(module, space)]
    if not undo:
        raise ValueError(f"{new!r} in nanolm/{file} changes no function, method or plain constant")
    _forget_cached(module)
    try:
        yield
    finally:
        for step in undo:
            step()
        _forget_cached(module)


def _exchange_code(module: ModuleType, space: dict[str, Any]) -> Iterator[Any]:
    mistaken = dict(_functions(space))
    for name, function in _functions(vars(module)):
        other = mistaken.get(name)
        if other is not None and _differs(function, other):
            before = (function.__code__, function.__defaults__, function.__kwdefaults__)
            _set(function, other.__code__, other.__defaults__, other.__kwdefaults__)
            yield functools.partial(_set, function, *before)


def _differs(one: FunctionType, other: FunctionType) -> bool:
    # The file's name is part of no comparison; line numbers are, which exchanges more than needed and harms nothing.
    return one.__code__ != other.__code__ or repr(one.__defaults__) != repr(other.__defaults__)


def _set(function: FunctionType, code: Any, defaults: Any, keyword_defaults: Any) -> None:
    function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, keyword_defaults


def _exchange_constants(module: ModuleType, space: dict[str, Any]) -> Iterator[Any]:
    for name, value in list(vars(module).items()):
        if not name.startswith("__") and isinstance(value, _PLAIN) and space.get(name) != value:
            setattr(module, name, space[name])
            yield functools.partial(setattr, module, name, value)


def _functions(space: dict[str, Any], prefix: str = "", home: str = "") -> Iterator[tuple[str, FunctionType]]:
    """Every function and method that a namespace defines, under whatever it is wrapped in, with a name of its own."""
    home = home or space["__name__"]
    for name, value in list(space.items()):
        if isinstance(value, type) and value.__module__ == home and not prefix:
            yield from _functions(dict(vars(value)), f"{name}.", home)
        for part, function in enumerate(_unwrapped(value)):  # a property has two: what gets it and what sets it
            if function.__module__ == home:
                yield f"{prefix}{name} {part}", function


def _unwrapped(value: Any) -> list[FunctionType]:
    if isinstance(value, property):
        return [function for part in (value.fget, value.fset) if part is not None for function in _unwrapped(part)]
    if isinstance(value, staticmethod | classmethod):
        return _unwrapped(value.__func__)
    if isinstance(value, functools.cached_property):
        return _unwrapped(value.func)
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return [value] if isinstance(value, FunctionType) else []


def _forget_cached(module: ModuleType) -> None:
    for value in vars(module).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()
