"""The seam between tests and what they test.

A test marked `exercise("function")` takes the fixture `impl`: nanolm's module that defines it, in which the
function comes from the implementation under test (NANOLM_IMPL, or the notebook whose `check` runs) and every other
name from the reference. A test without the mark is about the reference alone.
"""

from types import ModuleType

import pytest

from course.building.front_doors import home_of
from course.errors import CourseError, NotYetWritten
from course.grading.implementation import CHOSEN, REFERENCE, chosen
from course.grading.outcomes import targets_of, unwritten_line
from course.registry import registry

_UNWRITTEN = "not_yet_written"


def pytest_configure(config: pytest.Config) -> None:
    if CHOSEN in config.stash:  # `check` and `course status` hand theirs over
        return
    try:
        config.stash[CHOSEN] = chosen()
    except CourseError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> str:
    return f"implementation under test: {config.stash[CHOSEN].name}"


@pytest.fixture
def impl(request: pytest.FixtureRequest) -> ModuleType:
    """The module under test."""
    targets = targets_of(request.node)
    modules = {home_of(target) for target in targets}
    if len(modules) != 1 or None in modules:
        pytest.fail(f"a test that takes impl is marked exercise('name'), of one module: {targets}", pytrace=False)
    try:
        implementation = request.config.stash[CHOSEN]
        return implementation.module(*modules, targets)
    except CourseError as error:
        reason = str(error)
    pytest.fail(reason, pytrace=False)  # out here, so that no "during handling of" precedes it


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        # `-k residual_distribution` finds every test of that exercise, whatever the test is called.
        item.extra_keyword_matches.update(target.split(".")[-1] for target in targets_of(item))
    if config.stash[CHOSEN].name != REFERENCE:
        # A test of the reference alone would say nothing of an answer, nor one of an exercise that no lesson asks yet.
        try:
            asked = {name for exercise in registry() for name in exercise.targets}
        except CourseError as error:
            raise pytest.UsageError(str(error)) from None
        grading = [item for item in items if asked.intersection(targets_of(item))]
        config.hook.pytest_deselected(items=[item for item in items if item not in grading])
        items[:] = grading


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
