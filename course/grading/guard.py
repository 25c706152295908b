"""Around every call of an answer in a test: its arguments stay as they were, and a forgotten `return` is told.

Tests hand out what they need again, so an answer that writes into its arguments would spoil the tests behind it, of
right answers too. What is changed is put back, and the test fails with the name of the argument. An exercise that is
meant to change an argument says "in place" in its docstring.
"""

import functools
import inspect
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, GeneratorType, ModuleType
from typing import Any

_CALLS = 64  # guarded a test: what a function does to its arguments it does from the first call on
_LARGEST = 1 << 20  # numbers in an array that is copied, and things in a list
_UNCHANGED = object()


def guard(module: ModuleType, targets: Sequence[str], reference: ModuleType) -> Callable[[], int]:
    """Guard the targets of a module; return what takes the guard off again and says how many calls came back."""
    undo: list[tuple[Any, str, Any]] = []
    returned = Counter()
    for target in targets:
        owner, _, name = target.rpartition(".")
        place = getattr(module, owner) if owner else module
        value, original = vars(place).get(name), _look_up(reference, target)
        if isinstance(value, FunctionType):
            undo.append((place, name, value))
            setattr(place, name, _guarded(value, original, returned))

    def take_off() -> int:
        for place, name, value in reversed(undo):
            setattr(place, name, value)
        return returned.total() if undo else 1  # a property is not watched

    return take_off


def _look_up(reference: ModuleType, target: str) -> Any:
    owner, _, name = target.rpartition(".")
    return vars(getattr(reference, owner))[name] if owner else getattr(reference, target)


def _guarded(function: FunctionType, original: Any, returned: Counter) -> Callable[..., Any]:
    may_change = "in place" in (inspect.getdoc(original) or "")
    gives = getattr(original, "__annotations__", {}).get("return")
    must_return = gives is not None and "None" not in str(gives)
    state = {"depth": 0, "calls": 0}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if state["depth"] or state["calls"] >= _CALLS:
            return function(*args, **kwargs)
        state["calls"] += 1
        state["depth"] += 1
        before = [] if may_change else [(name, value, _copy(value)) for name, value in _named(function, args, kwargs)]
        try:
            result = function(*args, **kwargs)
            returned[function.__name__] += 1
        finally:
            state["depth"] -= 1
            damaged = [name for name, value, copy in before if _put_back(value, copy)]
        _complain(damaged)
        if isinstance(result, GeneratorType):
            return _watched(result, before)
        if result is None and must_return:
            raise AssertionError(f"{function.__name__} returned None: is a `return` missing?")
        return result

    return call


def _watched(generator: Iterator[Any], before: list[tuple[str, Any, Any]]) -> Iterator[Any]:
    """A generator's items; what it was called with must be the same when it has ended."""
    try:
        yield from generator
    finally:
        damaged = [name for name, value, copy in before if _put_back(value, copy)]
    _complain(damaged)


def _complain(damaged: list[str]) -> None:
    __tracebackhide__ = True
    if damaged:
        names = " and ".join(damaged)
        raise AssertionError(
            f"your function changed its argument {names}, which is the caller's and is used again: "
            "work on a copy (clone() of a tensor, copy() of an array, list() of a list)"
        )


def _named(function: FunctionType, args: tuple, kwargs: dict) -> Iterator[tuple[str, Any]]:
    """The arguments with their names; an object's own `self` is left out: changing it is a method's business."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    for index, value in enumerate(args):
        name = names[index] if index < len(names) else f"number {index + 1}"
        if name != "self":
            yield name, value
    yield from kwargs.items()


def _copy(value: Any) -> Any:
    """What is needed to compare and to put back; _UNCHANGED for what is no plain data."""
    if isinstance(value, list | tuple | deque):
        return [_copy(item) for item in value] + [list(value)] if len(value) <= _LARGEST else _UNCHANGED
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}, dict(value)
    if isinstance(value, set):
        return set(value)
    if _is_array(value) and _size(value) <= _LARGEST:
        return value.detach().clone() if hasattr(value, "detach") else value.copy()
    return _UNCHANGED


def _put_back(value: Any, copy: Any) -> bool:
    """Make a value again what its copy says; return whether it was something else."""
    if copy is _UNCHANGED:
        return False
    if isinstance(value, list | tuple | deque):
        *copies, items = copy
        damaged = len(value) != len(items) or any(now is not then for now, then in zip(value, items, strict=True))
        if damaged and not isinstance(value, tuple):
            value.clear()
            value.extend(items)
        return any([_put_back(item, kept) for item, kept in zip(items, copies, strict=True)]) or damaged
    if isinstance(value, dict):
        copies, items = copy
        damaged = list(value) != list(items) or any(value[key] is not items[key] for key in items)
        if damaged:
            value.clear()
            value.update(items)
        return any([_put_back(items[key], copies[key]) for key in items]) or damaged
    if isinstance(value, set):
        damaged = value != copy
        value.clear() if damaged else None
        value.update(copy) if damaged else None
        return damaged
    return _put_array_back(value, copy)


def _put_array_back(value: Any, copy: Any) -> bool:
    same_shape = tuple(value.shape) == tuple(copy.shape)
    if same_shape and bool(((value == copy) | ((value != value) & (copy != copy))).all()):
        return False
    if hasattr(value, "detach"):
        value.detach().resize_(copy.shape).copy_(copy)
    elif same_shape:
        value[...] = copy
    return True


def _is_array(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("shape", "dtype")) and hasattr(value, "reshape")


def _size(value: Any) -> int:
    return value.numel() if hasattr(value, "numel") else value.size
