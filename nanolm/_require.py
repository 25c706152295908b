"""One way to refuse: an error that names the argument, its value and what is allowed, or the missing package."""

import math
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from typing import Any

_MOST_SHOWN = 100
_HOME = Path(__file__).resolve().parents[1]  # a checkout, or where packages are installed


def require_positive(**values: Any) -> None:
    """Raise ValueError unless every value is a finite number above 0."""
    _require(lambda value: value > 0, "a finite number above 0", values)


def require_not_negative(**values: Any) -> None:
    """Raise ValueError unless every value is a finite number, 0 or more."""
    _require(lambda value: value >= 0, "a finite number, 0 or more", values)


def require_share(**values: Any) -> None:
    """Raise ValueError unless every value is a share of something that is never given away whole: 0 to below 1."""
    _require(lambda value: 0 <= value < 1, "a share, 0 or more and below 1", values)


def require_count(minimum: int, **values: Any) -> None:
    """Raise ValueError unless every value is a whole number of at least `minimum`; 8e9 is whole, 1.5 is not."""
    _require(lambda value: value >= minimum and value == int(value), f"a whole number, {minimum} or more", values)


def require_whole(minimum: int, **values: Any) -> None:
    """Raise ValueError unless every value is an integer of at least `minimum`: 2.0 is none, a range cannot take it."""
    for name, value in values.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
            raise ValueError(f"{name} is {shown(value)}; it must be a whole number, {minimum} or more")


def shown(value: Any) -> str:
    """Return a value as a message shows it: its beginning, where it would fill the screen."""
    if isinstance(value, str | list):
        value = value[: 2 * _MOST_SHOWN]  # the repr of a whole text would be made only to be cut
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a whole number of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def require_package(name: str, purpose: str, extra: str) -> ModuleType:
    """Return a package of an optional extra; raise a ModuleNotFoundError that says what for and how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        how = how_to_install(extra)
        why = f"{purpose} need the package {name}, which is not installed; install it with {how}"
        raise ModuleNotFoundError(why, name=error.name) from None


def how_to_install(extra: str) -> str:
    """Return the command that brings an optional extra: in the checkout, or to the package as it is installed."""
    is_checkout = (_HOME / "pyproject.toml").is_file()
    # The version that is installed meets the second; pip looks for nothing but what it lacks.
    return f"pip install -e '.[{extra}]' -c constraints.txt" if is_checkout else f"pip install 'nanolm-course[{extra}]'"


def _require(is_allowed: Any, allowed: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        is_number = isinstance(value, Real) and not isinstance(value, bool) and _is_finite(value)
        if not (is_number and is_allowed(value)):
            raise ValueError(f"{name} is {shown(value)}; it must be {allowed}")


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False
