"""Jinja with an end: a template is a program from strangers, and the sandbox alone lets it run for ever.

Every round of a loop and every call of a macro looks at the clock, and what multiplies text looks at its length first.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jinja2 import TemplateRuntimeError, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

_TICK = "clock_tick_of_the_sandbox"
_MOST_DIGITS = 4096  # of a power


class Clock:
    """The time that one rendering has, in each thread its own."""

    def __init__(self) -> None:
        self._local = threading.local()

    @contextmanager
    def started(self, seconds: float) -> Iterator[None]:
        """Let `tick` raise once so many seconds are over."""
        self._local.end, self._local.seconds = time.monotonic() + seconds, seconds
        try:
            yield
        finally:
            self._local.end = None

    def tick(self) -> str:
        """Return nothing to write; raise where the time is over."""
        end = getattr(self._local, "end", None)
        if end is not None and time.monotonic() > end:
            raise TemplateRuntimeError(f"it runs for more than {self._local.seconds:g} seconds")
        return ""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox whose templates end.

    Args:
        clock: started around each rendering.
        longest: characters or elements that a product or a sum may have.
    """

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def __init__(self, clock: Clock, longest: int, **options: Any) -> None:
        super().__init__(**options)
        self.longest = longest
        self.globals[_TICK] = clock.tick

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for node in tree.find_all((nodes.For, nodes.Macro)):
            tick = nodes.Call(nodes.Name(_TICK, "load"), [], [], None, None)
            node.body.insert(0, nodes.Output([tick]).set_lineno(node.lineno))
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute a product, power, sum or formatted text, if its result is of a size to hold."""
        size = _SIZES[operator](left, right)
        if size > self.longest:
            why = f"{operator} would make {size:.0f} characters, elements or digits of it, over {self.longest}"
            raise TemplateRuntimeError(why)
        return super().call_binop(context, operator, left, right)


def _of_product(left: Any, right: Any) -> float:
    for text, times in ((left, right), (right, left)):
        if hasattr(text, "__len__") and isinstance(times, int):
            return len(text) * times
    return 0


def _of_power(left: Any, right: Any) -> float:
    is_large = isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > _MOST_DIGITS
    return float("inf") if is_large else 0


def _of_sum(left: Any, right: Any) -> float:
    return len(left) + len(right) if hasattr(left, "__len__") and hasattr(right, "__len__") else 0


def _of_format(left: Any, right: Any) -> float:
    """A width in a format is a number in it: more than four digits are no width of anybody's."""
    is_wide = isinstance(left, str) and ("*" in left or any(len(run) > 4 for run in _runs_of_digits(left)))
    return float("inf") if is_wide else 0


def _runs_of_digits(text: str) -> list[str]:
    return "".join(letter if letter.isdigit() else " " for letter in text).split()


_SIZES: dict[str, Callable[[Any, Any], float]] = {
    "*": _of_product, "**": _of_power, "+": _of_sum, "%": _of_format,
}  # fmt: skip
