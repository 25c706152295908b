"""One exercise from an answer, everything else from the reference: the module that a test gets as `impl`.

So week N needs nothing of week N-1, and a wrong `residual_distribution` fails its own tests, not those of
`speculative_round`. Functions carry the globals they look names up in; here the answer's get new ones.
"""

import functools
import inspect
from collections.abc import Mapping, Sequence
from types import CellType, FunctionType, ModuleType
from typing import Any

from ..errors import CourseError, NotYetWritten
from ..registry import registry

MARK = "__answers__"  # in the globals of every function that an answer brought


def overlay(reference: ModuleType, targets: Sequence[str], answers: Mapping[str, Any], where: str) -> ModuleType:
    """Return a module with the reference's names, the targets replaced by the answers' definitions.

    The answers' own helpers, imports and constants are there too, for the answers to find. Where both sides have a
    name, the answers' wins, so that a helper is never exchanged behind a student's back; but for classes, and for other
    exercises: those are the engine's.

    Args:
        targets: "function" or "Class.method".
        answers: the namespace they are defined in: a module's or a notebook's.
        where: what an error calls that namespace.

    Raises:
        CourseError: a target is missing from the answers, or is the reference itself.
    """
    module = ModuleType(reference.__name__, reference.__doc__)
    names = vars(module)
    names.update(vars(reference))
    names[MARK] = where
    asked = exercises()
    for name, value in answers.items():
        engine = names.get(name)
        is_kept = is_engine(engine) and (isinstance(engine, type) or name in asked or is_engine(value))
        if not name.startswith("__") and not is_kept:
            names[name] = rebind(value, answers, names)
    for target in targets:
        if "." in target:
            _take_method(target, reference, answers, names, where)
        else:
            names[target] = rebind(_answer(answers, target, where), answers, names)
    return module


def exercises() -> set[str]:
    """Return the names of all functions and classes that some exercise asks for."""
    return {target.partition(".")[0] for exercise in registry() for target in exercise.targets}


def _take_method(
    target: str, reference: ModuleType, answers: Mapping[str, Any], names: dict[str, Any], where: str
) -> None:
    owner, _, method = target.rpartition(".")
    mine, parent = _answer(answers, owner, where), getattr(reference, owner)
    if names[owner] is parent:  # two methods of one class share its subclass
        names[owner] = _subclass(parent, mine, answers, names)
    if method not in vars(mine):
        raise CourseError(f"{where} defines no {target}")
    if is_engine(plain(vars(mine)[method])):  # a lab has put it there, for want of an answer
        raise NotYetWritten(f"{target} is not written yet: put your code in the place of the line that raises this")
    setattr(names[owner], method, rebind(vars(mine)[method], answers, names, (mine, parent)))


def _answer(answers: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in answers:
        raise CourseError(f"{where} defines no {name}")
    if is_engine(answers[name]):
        raise CourseError(f"not written: {name} in {where} is nanolm's own, and the exercise is to write it")
    return answers[name]


def plain(value: Any) -> Any:
    """Return the function inside a property, a static or class method, or a decorator's wrapper."""
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    while not isinstance(value, FunctionType) and hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return value


def is_unwritten(value: Any) -> bool:
    """Return whether a function is still the line that says that nobody has written it."""
    code = getattr(inspect.unwrap(plain(value)), "__code__", None)  # a decorator around a stub is still a stub
    return code is not None and "NotYetWritten" in code.co_names


def is_engine(value: Any) -> bool:
    """Return whether a function or class is nanolm's own."""
    home = getattr(value, "__module__", None) or getattr(value, "__name__", None)
    return isinstance(home, str) and home.partition(".")[0] == "nanolm"


def _subclass(parent: type, mine: type, answers: Mapping[str, Any], names: dict[str, Any]) -> type:
    """The reference's class with the methods that only the answer's class has: helpers of the ones asked."""
    if not isinstance(mine, type):
        raise CourseError(f"{parent.__name__} must be a class; it is {mine!r}")
    extra = {
        name: rebind(value, answers, names, (mine, parent))
        for name, value in vars(mine).items()
        if not hasattr(parent, name) and not name.startswith("__")
    }
    same = {"__module__": parent.__module__, "__doc__": parent.__doc__}
    return type(parent)(parent.__name__, (parent,), extra | same)


def rebind(value: Any, answers: Mapping[str, Any], names: dict[str, Any], classes: tuple = (None, None)) -> Any:
    """Return value with every function of the answers' inside it looking its names up in `names`.

    It follows descriptors, caches, and the closures that decorators make, so a decorated function stays decorated.
    `classes` is (the answer's class, the reference's): what super() means in a method changes from one to the other.
    """

    def again(part: Any) -> Any:
        return rebind(part, answers, names, classes)

    if isinstance(value, property):
        return property(again(value.fget), again(value.fset), again(value.fdel), value.__doc__)
    if isinstance(value, staticmethod | classmethod):
        return type(value)(again(value.__func__))
    if isinstance(value, functools.cached_property):
        return functools.cached_property(again(value.func))
    if hasattr(value, "cache_parameters"):
        return functools.lru_cache(**value.cache_parameters())(again(value.__wrapped__))
    if isinstance(value, FunctionType) and _belongs(value, answers):
        return _copy(value, answers, names, classes)
    return value


def _belongs(function: FunctionType, answers: Mapping[str, Any]) -> bool:
    """Whether it is one of the answers' functions, or a wrapper around one."""
    while function.__globals__ is not answers:
        inside = getattr(function, "__wrapped__", None)
        if not isinstance(inside, FunctionType):
            return False
        function = inside
    return True


def _copy(function: FunctionType, answers: Mapping[str, Any], names: dict[str, Any], classes: tuple) -> FunctionType:
    cells = tuple(_cell(cell, answers, names, classes) for cell in function.__closure__ or ())
    space = names if function.__globals__ is answers else function.__globals__
    copy = FunctionType(function.__code__, space, function.__name__, function.__defaults__, cells)
    functools.update_wrapper(copy, function)
    copy.__kwdefaults__ = function.__kwdefaults__
    # update_wrapper has set it to the function copied, which would lead inspect.unwrap back to the old globals.
    del copy.__wrapped__
    if hasattr(function, "__wrapped__"):
        copy.__wrapped__ = rebind(function.__wrapped__, answers, names, classes)
    return copy


def _cell(cell: CellType, answers: Mapping[str, Any], names: dict[str, Any], classes: tuple) -> CellType:
    try:
        value = cell.cell_contents
    except ValueError:  # an empty cell: a local that is not set yet
        return cell
    mine, parent = classes
    if mine is not None and value is mine:
        return CellType(parent)
    # Recursion through a local function would never end; those keep their cell.
    changed = rebind(value, answers, names, classes) if isinstance(value, FunctionType) else value
    return cell if changed is value else CellType(changed)
