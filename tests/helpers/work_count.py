"""Work as a number that is the same on every machine: how many lines of the engine a call runs."""

import sys
from contextlib import contextmanager

from course.paths import ROOT


class Count:
    """How many lines were run."""

    n = 0


@contextmanager
def lines_of(folder):
    """Count the lines of a folder of nanolm that run inside the `with`; loops in C, such as a sort, are not seen."""
    count, inside, before = Count(), str(ROOT / "nanolm" / folder), sys.gettrace()

    def on_line(frame, event, argument):
        count.n += event == "line"
        return on_line

    def on_call(frame, event, argument):
        return on_line if frame.f_code.co_filename.startswith(inside) else None

    sys.settrace(on_call)
    try:
        yield count
    finally:
        sys.settrace(before)
