"""The engine put together from a student's parts: what is written takes its place in `nanolm`, the rest stays.

Every part is counted: a report can say which parts did the work, and whose they were. The modules of the running
process are changed: for good (`assemble`, in a process of its own), or for the length of a `with` (`assembled`).
"""

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import ModuleType
from typing import Any

from ..errors import CourseError, NotYetWritten
from ..registry import Exercise
from .implementation import Implementation
from .overlay import is_unwritten

YOURS, REFERENCE = "yours", "reference"


@dataclass
class Part:
    """One function or method that is an exercise.

    Attributes:
        exercise: the exercise it belongs to.
        name: the function, or Class.method.
        whose: YOURS or REFERENCE.
        why: why it is the reference's; empty where it is not.
        calls: how often it was called since it was put in place.
    """

    exercise: Exercise
    name: str
    whose: str
    why: str = ""
    calls: int = 0


_Undo = list[tuple[Callable[..., None], Any, str, Any]]  # what sets a name of a space back, and to what
_ABSENT = object()


def assemble(implementation: Implementation, exercises: Sequence[Exercise]) -> list[Part]:
    """Put every written exercise in the engine's place, in this process; return all parts, counted from now on."""
    return _assemble(implementation, exercises, [])


@contextlib.contextmanager
def assembled(implementation: Implementation, exercises: Sequence[Exercise]) -> Iterator[list[Part]]:
    """Put every written exercise in the engine's place for the length of a `with`; give all parts, counted."""
    undo: _Undo = []
    try:
        yield _assemble(implementation, exercises, undo)
    finally:
        for put, space, name, value in reversed(undo):
            put(space, name, value)


def _assemble(implementation: Implementation, exercises: Sequence[Exercise], undo: _Undo) -> list[Part]:
    parts: list[Part] = []
    pairs: list[tuple[Any, Any]] = []
    spaces: list[dict[str, Any]] = []
    for module_name, group in groupby(sorted(exercises, key=lambda each: each.module), key=lambda each: each.module):
        reference = importlib.import_module(f"nanolm.{module_name}")
        found = [(Part(exercise, target, YOURS), target) for exercise in group for target in exercise.targets]
        for part, target in found:
            part.why = _why_not(implementation, module_name, target)
            part.whose = REFERENCE if part.why else YOURS
        written = [target for part, target in found if not part.why]
        module = implementation.module(module_name, written) if written else reference
        spaces.append(vars(module))
        for part, target in found:
            pairs += _place(part, target, reference, module if part.whose == YOURS else reference, undo)
        parts += [part for part, _ in found]
    _exchange(pairs, spaces, undo)
    return parts


def _why_not(implementation: Implementation, module_name: str, target: str) -> str:
    """Why a target cannot be taken from the answers, in a few words; empty if it can."""
    try:
        module = implementation.module(module_name, [target])
    except NotYetWritten:  # a lab has put the reference there, for want of an answer
        return "not written"
    except CourseError as error:
        return str(error)
    return "not written" if is_unwritten(_look_up(module, target)) else ""


def _place(part: Part, target: str, reference: ModuleType, module: ModuleType, undo: _Undo) -> list[tuple[Any, Any]]:
    """Count the calls of a part; put a method into the engine's class; return what else has to be exchanged."""
    if "." not in target:
        counted = _counted(getattr(module, target), part)
        return [(getattr(reference, target), counted), (getattr(module, target), counted)]
    owner, _, method = target.rpartition(".")
    home, mine = getattr(reference, owner), getattr(module, owner)
    for name, value in vars(mine).items():  # its helpers come along; the methods asked for come one by one
        if mine is not home and not name.startswith("__") and name not in vars(home):
            _set_attribute(home, name, value, undo)
    value = vars(mine)[method] if method in vars(mine) else vars(home)[method]
    _set_attribute(home, method, _counted(value, part), undo)
    return [] if mine is home else [(mine, home)]


def _counted(value: Any, part: Part) -> Any:
    """The same function, property or static method, whose calls are counted."""
    if isinstance(value, property):
        return property(_counted(value.fget, part), value.fset, value.fdel, value.__doc__)
    if isinstance(value, staticmethod | classmethod):
        return type(value)(_counted(value.__func__, part))
    if not callable(value):
        return value

    @functools.wraps(value)
    def counted(*arguments: Any, **options: Any) -> Any:
        part.calls += 1
        try:
            return value(*arguments, **options)
        except Exception as error:
            if part.whose == YOURS and not getattr(error, "__notes__", None):
                error.add_note(_blame(part))
            raise

    return counted


def _blame(part: Part) -> str:
    """Where an error came up. A right answer refuses what a wrong one gives it, so that alone accuses nobody."""
    here = f"raised in your {part.name}, exercise {part.exercise.number}, while the engine ran"
    return f"{here}; if the tests of {part.exercise.number} pass, another part gave it what it must not get"


def _exchange(pairs: list[tuple[Any, Any]], spaces: list[dict[str, Any]], undo: _Undo) -> None:
    """Wherever the engine or an answer knows the first of a pair by name, let it know the second."""
    modules = [vars(module) for name, module in sys.modules.items() if name.partition(".")[0] == "nanolm" and module]
    new = {id(old): by for old, by in pairs}
    for space in [*modules, *spaces]:
        for name, value in list(space.items()):
            if id(value) in new:
                undo.append((dict.__setitem__, space, name, value))
                space[name] = new[id(value)]


def _set_attribute(owner: type, name: str, value: Any, undo: _Undo) -> None:
    before = vars(owner).get(name, _ABSENT)
    undo.append((_restore, owner, name, before))
    setattr(owner, name, value)


def _restore(owner: type, name: str, before: Any) -> None:
    delattr(owner, name) if before is _ABSENT else setattr(owner, name, before)


def _look_up(module: ModuleType, target: str) -> Any:
    owner, _, method = target.rpartition(".")
    return vars(getattr(module, owner))[method] if owner else getattr(module, target)
