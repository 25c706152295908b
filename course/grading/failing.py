"""The call that a test failed on, kept for the student to make again: `failing` in the notebook."""

import copy
import functools
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from ..paths import ROOT
from ..registry import Exercise
from .implementation import Notebook
from .outcomes import Outcome
from .runner import run_test

_SECONDS = 10  # for running one test again
_WIDTH = 100
_ENDLESS = "still running"  # how the message of a test begins that its time limit has ended


@dataclass
class FailingCall:
    """One call of an answer: what it was called with, and what came of it.

    Attributes:
        name: the function, or Class.method.
        args, kwargs: its arguments as they were before the call; of a method, without the object itself.
        owner: the object that a method was called on, as it was before; None for a function.
        result: what it returned, or the error that it raised.
        space: the notebook's names, where the answer as it is now is looked up.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    owner: Any
    result: Any
    space: Mapping[str, Any] = field(repr=False)

    def again(self) -> Any:
        """Call the answer as it is now with copies of the same arguments, and return what it returns."""
        args, kwargs, owner = _copied((self.args, self.kwargs, self.owner))
        name, _, method = self.name.rpartition(".")
        if not name:
            return self.space[self.name](*args, **kwargs)
        return vars(self.space[name])[method](owner, *args, **kwargs)

    def __str__(self) -> str:
        given = [_short(value) for value in self.args] + [
            f"{name}={_short(value)}" for name, value in self.kwargs.items()
        ]
        outcome = "raised" if isinstance(self.result, BaseException) else "returned"
        return f"{self.name}({', '.join(given)}) {outcome} {_short(self.result)}"

    __repr__ = __str__


class Recorder:
    """Takes down the last call of each target; what cannot be copied is kept as it is."""

    def __init__(self, space: Mapping[str, Any]) -> None:
        self.space, self.last, self._depth = space, None, 0

    def __call__(self, target: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with every call of it from outside taken down."""
        is_method = "." in target

        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return function(*args, **kwargs)
            before, named = _copied((args, kwargs))
            owner, given = (before[0], before[1:]) if is_method and before else (None, before)
            self.last = call = FailingCall(target, given, named, owner, None, self.space)
            self._depth += 1
            try:
                call.result = function(*args, **kwargs)
            except BaseException as error:
                call.result = error
                raise
            finally:
                self._depth -= 1
            return call.result

        return recorded


def failing_call(
    exercise: Exercise, failed: Outcome, answers: Mapping[str, Any], seed: int | None = None
) -> FailingCall | None:
    """Run one failed test again and return the last call of the answer in it; None where it made none or passed."""
    if failed.message.startswith(_ENDLESS):
        return None
    recorder = Recorder(answers)
    files = [ROOT / name for name in exercise.tests]
    again = run_test(failed.test, files, Recorded(answers, recorder), _SECONDS, seed)
    if again.error or all(outcome.passed for outcome in again.outcomes):
        return None
    return recorder.last


class Recorded(Notebook):
    """A notebook's answers with the calls of those under test taken down."""

    def __init__(self, answers: Mapping[str, Any], recorder: Recorder) -> None:
        super().__init__(answers)
        self.recorder = recorder

    def module(self, name, targets):
        made = super().module(name, targets)
        for target in targets:
            owner, _, method = target.rpartition(".")
            place: MutableMapping[str, Any] | Mapping[str, Any] = vars(getattr(made, owner)) if owner else vars(made)
            value = place[method or target]
            if not callable(value) or isinstance(value, type):
                continue  # a property or a static method: no call to show
            wrapped = functools.update_wrapper(self.recorder(target, value), value)
            if owner:
                setattr(getattr(made, owner), method, wrapped)
            else:
                setattr(made, target, wrapped)
        return made


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a scripted model, a generator: shown as it is now
        return value


def _short(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(value, BaseException):
        text = f"{type(value).__name__}: {value}"
    elif shape is not None and getattr(value, "size", None) is not None and _count(value) > 12:
        text = f"<{type(value).__name__} {tuple(shape)} {getattr(value, 'dtype', '')}>"
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _count(value: Any) -> int:
    size = value.numel() if hasattr(value, "numel") else value.size
    return int(size)
