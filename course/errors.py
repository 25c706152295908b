"""What can go wrong, said in a sentence: each of these errors is shown without a traceback."""

import sys

from .paths import as_read_here


class CourseError(Exception):
    """A request that cannot be met; the message says what was asked, and what is possible."""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows of this error: the message only."""
        return [f"{type(self).__name__}: {self}"]


class NotYetWritten(NotImplementedError):
    """An exercise that nobody has answered yet; without a message, it names the function that raises it.

    A stub's message names the released notebook, the same on every machine; shown is the student's copy where one is.
    """

    def __init__(self, message: str | None = None) -> None:
        function = sys._getframe(1).f_code.co_name  # the stub in a notebook is the same line everywhere
        unnamed = f"{function} is not written yet: put your code in the place of the line that raises this"
        super().__init__(as_read_here(message) if message else unnamed)

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class CheckFailed(AssertionError):
    """Tests of an exercise failed; the message has a paragraph for each.

    Attributes:
        failing: the call of the answer that the first test failed on, where it is known.
        points: what the tests that passed earn.
    """

    def __init__(self, message: str, failing: object = None, points: float = 0) -> None:
        super().__init__(message)
        self.failing, self.points = failing, points

    def _render_traceback_(self) -> list[str]:
        return [str(self)]
