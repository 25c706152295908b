"""What a test found, in words a student can use: a pytest plugin takes it down, test by test."""

import linecache
import math
import re
import traceback
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ..errors import CourseError, NotYetWritten
from ..registry import Exercise, find
from .implementation import CHOSEN, Implementation
from .limits import TEST_GIGABYTES, Clock, MemoryUp, TimeUp
from .overlay import MARK

_WIDTH = 160  # of a line of pytest's account, which can hold whole tensors


@dataclass(frozen=True)
class Outcome:
    """What one test found.

    Attributes:
        test: its function's name, parameters included.
        sentence: the name or the docstring as a sentence.
        passed: whether it ran to its end without a complaint.
        message: why it failed, without a traceback.
        unwritten: whether it failed only because the exercise is not written.
        targets: what it grades, "function" or "Class.method".
        is_refusal: whether no call of the answer gave anything back in it: it was about input that has to be refused.
    """

    test: str
    sentence: str
    passed: bool
    message: str
    unwritten: bool
    targets: tuple[str, ...]
    is_refusal: bool = False


# Kept by the fixture `impl` for each test: how many calls of the answer came back.
RETURNED = pytest.StashKey[int]()


class Collector:
    """Hands an implementation to a run of pytest, keeps the tests asked for, and takes down what each found.

    Args:
        implementation: what is tested.
        targets: keep the tests that grade one of these, "function" or "Class.method".
        test: instead, keep the test function of this name.
        brief: once a test has met an unwritten exercise, the others of just the same exercises fail in its words
            without being run. A student learns no more from them, and random tests take long to fail.
        weak: test functions that are replaced by ones that pass whatever the answer does.
    """

    def __init__(
        self,
        implementation: Implementation,
        targets: Collection[str] = (),
        test: str | None = None,
        brief: bool = False,
        weak: Collection[str] = (),
    ) -> None:
        self.weak = set(weak)
        self.clock: Clock | None = None  # of the whole run
        self.implementation, self.targets, self.test, self.brief = implementation, set(targets), test, brief
        self.unwritten: dict[tuple[str, ...], NotYetWritten] = {}
        self.items: list[pytest.Item] = []
        self.failures: dict[str, BaseException] = {}
        self.passes: set[str] = set()
        self.collection_errors: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[CHOSEN] = self.implementation

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.items = items[:] = [item for item in items if self._is_asked(item)]
        for item in items:
            if isinstance(item, pytest.Function) and item.originalname in self.weak:
                item.obj = _passes

    def _is_asked(self, item: pytest.Item) -> bool:
        if self.test is not None:
            return self.test in (item.name, getattr(item, "originalname", None))
        return not self.targets.isdisjoint(targets_of(item))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.collection_errors.append(str(report.longrepr))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        known = self.unwritten.get(targets_of(item))
        if known is not None and self.brief:
            raise known

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo):
        if call.excinfo is not None:
            self.failures.setdefault(item.nodeid, call.excinfo.value)
            if isinstance(call.excinfo.value, NotYetWritten):
                self.unwritten.setdefault(targets_of(item), call.excinfo.value)
            if isinstance(call.excinfo.value, TimeUp) and self.clock is not None and self.clock.left() <= 0:
                item.session.shouldstop = "the time of the whole run is up"
        elif call.when == "call":
            self.passes.add(item.nodeid)
        return (yield)

    def outcomes(self) -> list[Outcome]:
        """Return what each test found; one that never ran has failed."""
        return [self._outcome(item) for item in self.items]

    def _outcome(self, item: pytest.Item) -> Outcome:
        error = self.failures.get(item.nodeid)
        passed = error is None and item.nodeid in self.passes
        unwritten = isinstance(error, NotYetWritten)
        message = "" if passed else message_of(error, item)
        is_refusal = item.stash.get(RETURNED, 1) == 0
        return Outcome(item.name, sentence_of(item), passed, message, unwritten, targets_of(item), is_refusal)

    def problem(self, code: int, said: str) -> str:
        """Return what kept tests from running at all, or nothing; `code` and `said` are what pytest ended with."""
        if self.collection_errors:
            return "\n".join(self.collection_errors)
        if not self.items:
            return "no test grades it yet" if code == pytest.ExitCode.NO_TESTS_COLLECTED else said
        return ""


def _passes(**fixtures: Any) -> None:
    """In the place of a test: nothing is asked."""


def knows_little(outcome: Outcome) -> int:
    """Return how little a failure tells: 0 where a test names the mistake, 1 an error in the answer, 2 bare values.

    For sorting, so that a student reads first what says most.
    """
    if re.match(r"assert |an assertion without|\w*(?:Error|Exception|Exit|Interrupt)\b", outcome.message):
        return 2 if outcome.message.startswith(("assert ", "an assertion", "Assertion")) else 1
    return 0


def targets_of(item: pytest.Item) -> tuple[str, ...]:
    """Return what a test grades, "function" or "Class.method"; nothing for an unmarked test."""
    return tuple(name for mark in item.iter_markers("exercise") for name in mark.args)


def unwritten_line(targets: tuple[str, ...], error: NotYetWritten) -> str:
    """Return the one line about an unwritten exercise: the error's own where it has one, else the registry's."""
    if str(error).startswith("exercise "):
        return str(error)
    try:
        return find(targets[0]).not_yet_written
    except (CourseError, IndexError):
        return str(error)


def sentence_of(item: pytest.Item) -> str:
    """Return the first line of a test's docstring, or its name in words; parameters follow in brackets."""
    doc = (getattr(getattr(item, "obj", None), "__doc__", None) or "").strip()
    name, _, parameters = item.name.partition("[")
    words = doc.splitlines()[0].rstrip(".") if doc else name.removeprefix("test_").replace("_", " ")
    return f"{words} [{parameters}" if parameters else words


def message_of(error: BaseException | None, item: pytest.Item) -> str:
    """Return why a test failed: the assertion's own message, or the error and the line of the answer it came from."""
    if error is None:
        return "this test was not run, because an earlier one was broken off"
    if isinstance(error, NotYetWritten):
        return unwritten_line(targets_of(item), error)
    if isinstance(error, TimeUp):
        return f"still running after {TimeUp.seconds:g} seconds: look for a loop that does not end{_place(error)}"
    if isinstance(error, MemoryUp | MemoryError):
        more = f"it took more than {TEST_GIGABYTES:g} GB of memory"
        return f"{more}: look for a list or a tensor that grows without an end{_place(error)}"
    if isinstance(error, SystemExit):
        return f"the answer ended the program (sys.exit), which no function here does{_place(error)}"
    if isinstance(error, pytest.skip.Exception):
        return f"the test was skipped: {error.msg}"
    if isinstance(error, pytest.fail.Exception):
        return str(error.msg)
    if isinstance(error, AssertionError):
        return _assertion(str(error)) + _place(error)
    return f"{type(error).__name__}: {error}{_place(error)}"


def _assertion(text: str) -> str:
    """The message written in the test; pytest's account of the values only where there is no message."""
    if text.startswith("assert "):
        return "\n".join(line[:_WIDTH] for line in text.splitlines()[:2])
    return text.partition("\nassert ")[0] or "an assertion without a message failed"


def _place(error: BaseException) -> str:
    """The answer's own line that the error came through last; nothing if it came from the test."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if MARK in frame.f_globals:
            source = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()
            place = f"\n  in {frame.f_code.co_name}, line {line}" + (f": {source}" if source else "")
    return place


def earned(exercise: Exercise, outcomes: Sequence[Outcome]) -> float:
    """Return the points that the tests' outcomes earn: all of them, or the share passed, rounded down to a tenth.

    A test function counts once, however many cases it has. Refusals of impossible input are a part of the tests and
    earn their part; alone they earn nothing, since a function that refuses everything passes them all.
    """
    if outcomes and all(outcome.passed for outcome in outcomes):
        return exercise.points
    passed = [outcome for outcome in outcomes if outcome.passed]
    if all(outcome.is_refusal for outcome in passed):
        return 0
    cases: dict[str, list[bool]] = defaultdict(list)
    for outcome in outcomes:
        cases[outcome.test.partition("[")[0]].append(outcome.passed)
    share = sum(sum(each) / len(each) for each in cases.values()) / len(cases)
    return math.floor(10 * exercise.points * share) / 10


def points(number: float) -> str:
    """Return "1 point", "2.5 points"."""
    return f"{number:g} {'point' if number == 1 else 'points'}"
