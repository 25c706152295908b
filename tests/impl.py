"""The seam between tests and what they test.

A test marked `exercise("function")` takes the fixture `impl`: nanolm's module that defines it, in which the
function comes from the implementation under test (NANOLM_IMPL, or the notebook whose `check` runs) and every other
name from the reference. A test without the mark is about the reference alone.
"""

import importlib
from collections.abc import Iterator
from types import ModuleType

import hypothesis.core as hypothesis_core
import pytest
from hypothesis import HealthCheck, Phase, settings

from course.building.front_doors import home_of
from course.errors import CourseError, NotYetWritten
from course.grading import seeds
from course.grading.guard import guard
from course.grading.implementation import CHOSEN, REFERENCE, chosen
from course.grading.limits import MemoryUp, TimeUp, limits
from course.grading.outcomes import RETURNED, message_of, sentence_of, targets_of, unwritten_line
from course.registry import find, registry

# An answer's failure is told by the first example that shows it: to look for the smallest takes a minute at times.
settings.register_profile(
    "answers",
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
_UNWRITTEN, _SEED_OF_RUN = "not_yet_written", "nanolm_seed"
_SEED_BEFORE = pytest.StashKey[int]()
_STOPPED = pytest.StashKey[set[tuple[str, ...]]]()  # what ran out of time or memory once, and is not run again


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exercise",
        action="append",
        metavar="NAME",
        help="run the tests of one exercise, as check does: 4.1, residual_distribution, or one method, KVCache.update",
    )
    parser.addoption("--seed", type=int, metavar="N", help="what random inputs are made of; 0 is the project's own")


def pytest_configure(config: pytest.Config) -> None:
    if CHOSEN not in config.stash:  # `check` and `course status` hand theirs over
        try:
            config.stash[CHOSEN] = chosen()
        except CourseError as error:
            raise pytest.UsageError(str(error)) from None
    config.stash[_SEED_BEFORE] = seeds.use(_seed(config))
    if seeds.current():
        settings.load_profile("answers")
        hypothesis_core.global_force_seed = seeds.current()


def pytest_unconfigure(config: pytest.Config) -> None:
    seeds.use(config.stash.get(_SEED_BEFORE, 0))
    if not seeds.current():
        settings.load_profile("course")
        hypothesis_core.global_force_seed = None


def _seed(config: pytest.Config) -> int:
    """The run's seed: the one asked for, a worker's the one of its run, 0 for the reference, else a new one."""
    given = config.getoption("--seed", default=None)
    if given is not None:
        return given
    if hasattr(config, "workerinput"):
        return config.workerinput[_SEED_OF_RUN]
    return 0 if config.stash[CHOSEN].name == REFERENCE else seeds.new()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    node.workerinput[_SEED_OF_RUN] = seeds.current()


def pytest_report_header(config: pytest.Config) -> str:
    repeat = (
        f"\nseed of the inputs: {seeds.current()} (--seed {seeds.current()} repeats them)" if seeds.current() else ""
    )
    return f"implementation under test: {config.stash[CHOSEN].name}{repeat}"


@pytest.fixture
def impl(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The module under test; around what is graded stands a guard (course/grading/guard.py)."""
    module, targets = _module_of(request)
    take_off = guard(module, targets, importlib.import_module(module.__name__))
    yield module
    request.node.stash[RETURNED] = take_off()


def _module_of(request: pytest.FixtureRequest) -> tuple[ModuleType, tuple[str, ...]]:
    targets = targets_of(request.node)
    modules = {home_of(target) for target in targets}
    if len(modules) != 1 or None in modules:
        pytest.fail(f"a test that takes impl is marked exercise('name'), of one module: {targets}", pytrace=False)
    try:
        return request.config.stash[CHOSEN].module(*modules, targets), targets
    except CourseError as error:
        reason = str(error)
    pytest.fail(reason, pytrace=False)  # out here, so that no "during handling of" precedes it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    """A test of an answer has limits; after one that met them, the others of just the same exercises are not run."""
    if item.config.stash[CHOSEN].name == REFERENCE:
        return (yield)
    stopped = item.config.stash.setdefault(_STOPPED, set())
    if targets_of(item) in stopped:
        pytest.fail("not run: an earlier test of this exercise met its limit of time or memory", pytrace=False)
    try:
        with limits():
            return (yield)
    except (TimeUp, MemoryUp, MemoryError):
        stopped.add(targets_of(item))
        raise


def _asked_for(config: pytest.Config) -> set[str] | None:
    """The functions and methods that --exercise names; None where it is not given."""
    names = config.getoption("--exercise")
    if not names:
        return None
    try:
        return {
            target for name in names for target in ([name] if "." in name and name[0].isalpha() else find(name).targets)
        }
    except CourseError as error:
        raise pytest.UsageError(str(error)) from None


def _keep(config: pytest.Config, items: list[pytest.Item], targets: set[str]) -> None:
    """Leave out what grades none of the targets."""
    found: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        found[not targets.isdisjoint(targets_of(item))].append(item)
    config.hook.pytest_deselected(items=found[False])
    items[:] = found[True]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked_for = _asked_for(config)
    if asked_for is not None:
        _keep(config, items, asked_for)
    for item in items:
        # `-k residual_distribution` finds every test of that exercise, whatever the test is called.
        item.extra_keyword_matches.update(target.split(".")[-1] for target in targets_of(item))
    if config.stash[CHOSEN].name != REFERENCE:
        # A test of the reference alone would say nothing of an answer, nor one of an exercise that no lesson asks yet.
        try:
            asked = {name for exercise in registry() for name in exercise.targets}
        except CourseError as error:
            raise pytest.UsageError(str(error)) from None
        _keep(config, items, asked)
        for item in items:  # a warning is worth knowing, and costs an answer nothing
            item.add_marker(pytest.mark.filterwarnings("default"))


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    if config.stash[CHOSEN].name == REFERENCE:
        return None
    deselected = len(config.pluginmanager.get_plugin("terminalreporter").stats.get("deselected", []))
    return f"{len(items)} tests grade exercises; {deselected} left out (not asked for, or of the reference alone)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, NotYetWritten):
        report.outcome = "failed"
        report.longrepr = unwritten_line(targets_of(item), call.excinfo.value)
        report.user_properties.append((_UNWRITTEN, True))
    elif report.failed and call.excinfo is not None and item.config.stash[CHOSEN].name != REFERENCE:
        # In the words of `check`: a traceback would bury them, and show code of the reference.
        report.longrepr = f"{sentence_of(item)}:\n  " + message_of(call.excinfo.value, item).replace("\n", "\n  ")
    return report


def is_unwritten(report: pytest.TestReport) -> bool:
    """Return whether a test failed because nobody has written the exercise."""
    return (_UNWRITTEN, True) in report.user_properties


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter):
    """Say once for each unwritten exercise that it is; the count of failed tests still has all of its tests."""
    failed = terminalreporter.stats.get("failed", [])
    unwritten = [report for report in failed if is_unwritten(report)]
    if unwritten:
        failed[:] = [report for report in failed if not is_unwritten(report)]
        counts: dict[str, int] = {}
        for report in unwritten:
            counts[report.longrepr] = counts.get(report.longrepr, 0) + 1
        terminalreporter.ensure_newline()
        terminalreporter.section("not written yet", "=")
        for line, count in counts.items():
            terminalreporter.write_line(f"FAILED {line} ({count} test{'s' if count > 1 else ''})")
    result = yield
    failed += unwritten
    return result
