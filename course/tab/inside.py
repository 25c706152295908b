"""What runs in the tab, in Pyodide: a notebook's namespace, its cells and its checks, with the words of `check`."""

import ast
import contextlib
import io
import linecache
import traceback
from collections.abc import Callable
from typing import Any

from ..grading import limits
from ..grading.checking import check
from ..grading.outcomes import message_of

RUN_SECONDS = 20.0  # of a cell; a test's own are in limits.py


class Notebook:
    """The namespace that the cells of a page share.

    Args:
        set_up: the cell that a notebook begins with; what it imports and is not here is left out.
        told: called with the seconds that may pass from now on, and with what is to be said when they have: a tab
            has no alarm, so whoever has opened it ends it.
    """

    def __init__(self, set_up: str, told: Callable[[float, str], Any]) -> None:
        self.space: dict[str, Any] = {"__name__": "__main__"}
        self._told = told
        limits.outside = self._may_take
        for statement in ast.parse(set_up).body:
            with contextlib.suppress(ImportError):
                exec(compile(ast.Module([statement], []), "<set-up>", "exec"), self.space)

    def _may_take(self, seconds: float) -> None:
        limits.TimeUp.seconds = seconds
        self._told(seconds, message_of(limits.TimeUp(), None))  # pyright: ignore[reportArgumentType]

    def run(self, name: str, text: str) -> str:
        """Run a cell and return what it prints; where it fails, its error with the line."""
        said, _ = self._run(name, text)
        return said

    def check(self, name: str, text: str, seed: int | None = None) -> tuple[str, float]:
        """Run the cell of an exercise, check it, and return what a notebook would show, and the points."""
        said, is_run = self._run(name, text)
        if not is_run:
            return said, 0
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            points = check(name, self.space, seed)
        return said + shown.getvalue(), points

    def _run(self, name: str, text: str) -> tuple[str, bool]:
        shown, file = io.StringIO(), f"<cell {name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        self._may_take(RUN_SECONDS)
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            try:
                exec(compile(text, file, "exec"), self.space)
            except BaseException as error:  # also sys.exit: the tab goes on
                return shown.getvalue() + _told_of(error, file), False
        return shown.getvalue(), True


def _told_of(error: BaseException, file: str) -> str:
    """An error as a notebook tells it, from the cell's own lines on."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, frame in enumerate(frames) if frame.filename == file), len(frames))
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[first:])] if frames[first:] else []
    return "".join([*lines, *traceback.format_exception_only(error)])
