"""Impossible input must be refused, and the refusal must say what is wrong."""

import re
from collections.abc import Callable
from typing import Any

import pytest


def assert_refuses(name, call, *arguments):
    """Impossible input gets a ValueError that names the argument; of several, "p|q", that names one of them.

    That is all that a message has to have in it: the one rule for refusals, which "How to work" states in each week.
    """
    try:
        result = call(*arguments)
    except ValueError as error:
        # As a word of its own, or as a part between underscores: top_k names k, "at least" does not name a.
        names = name.split("|")
        is_named = any(re.search(rf"(?<![^\W_]){re.escape(each)}s?(?![^\W_])", str(error)) for each in names)
        assert is_named, f"the message {str(error)!r} should name the argument, {' or '.join(names)}"
        return
    except NotImplementedError:  # nobody has written it yet
        raise
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError) as error:  # nobody looked first
        came = f"raised {type(error).__name__} ({error})"
        if "is a `return` missing?" in str(error):  # an answer that gave nothing, as whoever called it says
            came = "returned None"
    else:
        came = f"returned {_short(result)}"
    shown = ", ".join(map(_short, arguments))
    why = f"({shown}) is impossible because of {name.replace('|', ' and ')}"
    pytest.fail(f"{why}: raise a ValueError that says so; it {came}")


def _short(value: Any) -> str:
    """A value as a message can hold it: of a large array its shape."""
    if hasattr(value, "shape") and hasattr(value, "tolist"):  # torch's, or numpy's, neither of which is needed here
        text = str(value.tolist())
        return text if value.size != 0 and len(text) <= 60 else f"shape {tuple(value.shape)}"
    text = str(getattr(value, "name", value))
    return text if len(text) <= 80 else f"{text[:79]}…"


def assert_is_refused(why: str, call: Callable[..., Any], *arguments: Any) -> None:
    """What cannot be done gets a ValueError, whatever it says."""
    try:
        call(*arguments)
    except ValueError:
        return
    pytest.fail(why)
