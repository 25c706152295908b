"""Jinja with an end: a template is a program from strangers, and the sandbox alone lets it run for ever.

A rendering has a budget of time and of characters. Every round of a loop, call, filter and output takes from it; what
makes a long text of short ones says its length before it is made; what no chat needs (`center`, `lipsum`) is left out.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

from jinja2 import TemplateRuntimeError, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

_TICK, _CONCAT = "clock_tick_of_the_sandbox", "concatenation_of_the_sandbox"
_MOST_DIGITS = 4096  # of a power
OUTPUTS = 4  # times the longest text: what all outputs of a rendering may have together, those that are kept too
_LEFT_OUT = ("batch", "center", "pprint", "random", "slice", "urlize", "wordwrap", "xmlattr")


class Budget:
    """The time and the characters that one rendering has, in each thread its own."""

    def __init__(self) -> None:
        self._local = threading.local()

    @contextmanager
    def started(self, seconds: float, characters: int) -> Iterator[None]:
        """Let `spend` raise once so many seconds are over, or so many characters spent."""
        self._local.end, self._local.seconds = time.monotonic() + seconds, seconds
        self._local.left = characters
        try:
            yield
        finally:
            self._local.end = None

    def spend(self, characters: int = 0) -> str:
        """Return nothing to write; raise where the time is over, or there are not so many characters left."""
        if getattr(self._local, "end", None) is None:
            return ""
        self._local.left -= characters
        if self._local.left < 0:
            raise TemplateRuntimeError("it writes too long a text")
        if time.monotonic() > self._local.end:
            raise TemplateRuntimeError(f"it runs for more than {self._local.seconds:g} seconds")
        return ""

    def weigh(self, value: Any) -> Any:
        """Return a value whose text is about to be made, if it is of a size to hold; what is nested in it counts."""
        if isinstance(value, str):
            self.spend(len(value))
        elif isinstance(value, Mapping):
            for key, each in value.items():
                self.weigh(key)
                self.weigh(each)
        elif isinstance(value, list | tuple):
            for each in value:
                self.weigh(each)
        else:
            self.spend(1)
        return value


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox whose templates end.

    Args:
        budget: started around each rendering.
        longest: characters or elements that a product or a sum may have.
    """

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def __init__(self, budget: Budget, longest: int, **options: Any) -> None:
        super().__init__(**options, finalize=budget.weigh)
        self.longest, self.budget = longest, budget
        self.globals |= {_TICK: budget.spend, _CONCAT: self._concatenated}
        del self.globals["lipsum"]
        for name in _LEFT_OUT:
            del self.filters[name]
        for name, its_filter in self.filters.items():
            self.filters[name] = self._counted(name, its_filter)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for node in tree.find_all((nodes.For, nodes.Macro)):
            texts = (text.data for each in node.body for text in each.find_all(nodes.TemplateData))
            tick = nodes.Call(nodes.Name(_TICK, "load"), [nodes.Const(sum(map(len, texts)))], [], None, None)
            node.body.insert(0, nodes.Output([tick]).set_lineno(node.lineno))
        return _Concatenations().visit(tree)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute a product, power, sum or formatted text, if its result is of a size to hold."""
        self._check(operator, _SIZES[operator](left, right))
        return super().call_binop(context, operator, left, right)

    def call(self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call something, if what it makes is of a size to hold."""
        self.budget.spend()
        name = getattr(__obj, "__name__", "")
        text = getattr(getattr(__obj, "__wrapped__", __obj), "__self__", None)
        if isinstance(text, str) and name in _METHODS:
            self._check(name, _METHODS[name](text, *args, **kwargs))
        return super().call(__context, __obj, *args, **kwargs)

    def _counted(self, name: str, its_filter: Callable[..., Any]) -> Callable[..., Any]:
        """A filter that looks at its length first; those that get a context have their value behind it."""
        at = 1 if hasattr(its_filter, "jinja_pass_arg") else 0

        @wraps(its_filter)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.budget.spend()
            values = list(args[at:])
            if name in _FILTERS and values and isinstance(values[0], Iterator):
                values[0] = list(values[0])
            if name in _FILTERS:
                self.budget.weigh(values[0])
                self._check(name, _FILTERS[name](*values, **kwargs))
            return its_filter(*args[:at], *values, **kwargs)

        return counted

    def _concatenated(self, *values: Any) -> str:
        texts = [str(self.budget.weigh(value)) for value in values]
        self._check("~", sum(map(len, texts)))
        return "".join(texts)

    def _check(self, name: str, size: float) -> None:
        if size > self.longest:
            why = f"{name} would make {size:.0f} characters, elements or digits of it, over {self.longest}"
            raise TemplateRuntimeError(why)


class _Concatenations(NodeTransformer):
    """Puts a function in the place of the operator ~, which a sandbox does not intercept."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        """Return the call."""
        self.generic_visit(node)
        call = nodes.Call(nodes.Name(_CONCAT, "load"), node.nodes, [], None, None)
        return call.set_lineno(node.lineno)


def to_json(value: Any, budget: Budget, **how: Any) -> str:
    """Return a value as JSON, made piece by piece: lists within lists may be many."""
    if isinstance(how.get("indent"), int) and how["indent"] > _WIDEST:
        raise TemplateRuntimeError(f"tojson with an indent of {how['indent']}")
    parts = []
    for part in json.JSONEncoder(**how).iterencode(value):
        budget.spend(len(part))
        parts.append(part)
    return "".join(parts)


_WIDEST = 64  # spaces a level of JSON
_WIDE = re.compile(r"\d{5}|%[-+ #0]*\*|%[-+ #0\d]*\.\*|\{[^{}]*:[^{}]*\{")


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


def _of_format(left: Any, *_: Any, **__: Any) -> float:
    """A width in a format is a number in it, or said to be an argument: nobody's has more than four digits."""
    return float("inf") if isinstance(left, str) and _WIDE.search(left) else 0


def _of_width(text: str, width: Any = 0, *_: Any) -> float:
    return width if isinstance(width, int) else 0


def _of_tabs(text: str, tabsize: Any = 8) -> float:
    return len(text) + text.count("\t") * (tabsize if isinstance(tabsize, int) else 0)


def _of_replacement(text: Any, old: Any = "", new: Any = "", *_: Any, **__: Any) -> float:
    text = str(text)
    return len(text) + text.count(str(old)) * len(str(new))


def _of_joint(separator: str, parts: Any = ()) -> float:
    return _of_join(parts, separator)


def _of_join(parts: Any, d: Any = "", *_: Any, **__: Any) -> float:
    lengths = [len(str(part)) for part in parts] if isinstance(parts, list | tuple | str | Mapping) else []
    return sum(lengths) + len(lengths) * len(str(d))


def _of_indent(text: Any, width: Any = 4, *_: Any, **__: Any) -> float:
    indent = len(width) if isinstance(width, str) else width
    return len(str(text)) + (str(text).count("\n") + 1) * (indent if isinstance(indent, int) else 0)


def _of_total(parts: Any, *more: Any, **named: Any) -> float:
    """Numbers may be added up; lists would be copied again and again."""
    start = named.get("start", more[1] if len(more) > 1 else 0)
    return 0 if isinstance(start, int | float) else float("inf")


_Size = Callable[..., float]
_SIZES: dict[str, _Size] = {"*": _of_product, "**": _of_power, "+": _of_sum, "%": _of_format}
_METHODS: dict[str, _Size] = {
    "center": _of_width, "ljust": _of_width, "rjust": _of_width, "zfill": _of_width, "expandtabs": _of_tabs,
    "replace": _of_replacement, "join": _of_joint, "format": _of_format, "format_map": _of_format,
}  # fmt: skip
_FILTERS: dict[str, _Size] = {
    "format": _of_format, "indent": _of_indent, "join": _of_join, "replace": _of_replacement, "string": lambda _: 0,
    "sum": _of_total,
}  # fmt: skip
