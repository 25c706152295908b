"""Run the published tests in this process against one implementation, and say what each test found.

The same files, marks and fixtures as `python -m pytest`; only the implementation is handed over directly, the
outcome comes back as objects, and nothing is printed or written.
"""

import contextlib
import io
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..errors import CourseError
from ..paths import ROOT
from ..registry import Exercise
from .implementation import Implementation
from .outcomes import Collector, Outcome, TimeUp

TESTS = ROOT / "tests"


@dataclass(frozen=True)
class Run:
    """The outcomes of one run, and what went wrong outside any test; `error` is empty if nothing did."""

    outcomes: list[Outcome]
    error: str

    @property
    def passed(self) -> bool:
        """Whether at least one test ran and all passed."""
        return bool(self.outcomes) and not self.error and all(outcome.passed for outcome in self.outcomes)


def run_exercises(
    exercises: Sequence[Exercise], implementation: Implementation, seconds: float = 60, brief: bool = False
) -> Run:
    """Run the tests that grade the exercises against an implementation, for at most `seconds`.

    Args:
        brief: of an unwritten exercise run one test, not all (`Collector`).
    """
    if not TESTS.is_dir():
        raise CourseError(f"the tests are not in {TESTS}: install the course from its folder, with pip install -e")
    targets = {name for exercise in exercises for name in exercise.targets}
    files = [ROOT / name for name in dict.fromkeys(name for exercise in exercises for name in exercise.tests)]
    if not files:  # pytest with no file would run whatever it finds
        return Run([], "no test grades it yet")
    return _run(Collector(implementation, targets=targets, brief=brief), files, seconds)


def run_test(test: str, files: Sequence[Path], implementation: Implementation, seconds: float = 60) -> Run:
    """Run one test by its function's name, marked or not, with all of its parameters."""
    return _run(Collector(implementation, test=test), files, seconds)


def _run(collector: Collector, files: Sequence[Path], seconds: float) -> Run:
    said = io.StringIO()
    arguments = [*map(str, files), f"--rootdir={ROOT}", f"--confcutdir={ROOT}", "-c", str(ROOT / "pyproject.toml")]
    arguments += ["--capture=sys", "-m", "not slow", "--disable-plugin-autoload", "--color=no"]
    arguments += ["--tb=no"]  # its account of a failure, which nobody reads, takes longer than most of our tests
    # The last two collect garbage several times a run, which takes longer than most of our tests.
    for plugin in ("cacheprovider", "faulthandler", "unraisableexception", "threadexception"):
        arguments += ["-p", f"no:{plugin}"]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), _unchanged(), _time_limit(seconds):
        code = pytest.main(arguments, plugins=[collector])
    return Run(collector.outcomes(seconds), collector.problem(code, said.getvalue()))


@contextlib.contextmanager
def _unchanged() -> Iterator[None]:
    """Give sys.path and the warnings settings back as they were: the process is the student's."""
    path, bytecode = list(sys.path), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # nothing is written beside the tests
    try:
        with warnings.catch_warnings():
            yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, bytecode


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeUp after some seconds, where that is possible: POSIX, in the main thread."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number, frame):
        raise TimeUp

    before, left = signal.signal(signal.SIGALRM, ring), signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)
