"""A pytest plugin: says at the end of a run which slow tests `-m` has left out, by function, with their number."""

from collections import Counter

import pytest

_SLOW = pytest.StashKey[Counter[str]]()


def pytest_deselected(items) -> None:
    """Count the slow ones; without `-m` it was their name or exercise that was not asked for."""
    for item in items:
        if item.config.option.markexpr and item.get_closest_marker("slow"):
            item.config.stash.setdefault(_SLOW, Counter())[item.nodeid.partition("[")[0]] += 1


def pytest_sessionfinish(session) -> None:
    """Under pytest-xdist only the workers collect, so each hands its count over."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = dict(session.config.stash.get(_SLOW, Counter()))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """All workers have left out the same; one that crashed tells nothing."""
    if told := getattr(node, "workeroutput", {}).get("left out"):
        node.config.stash[_SLOW] = Counter(told)


def pytest_terminal_summary(terminalreporter, config) -> None:
    """Print the list."""
    if slow := config.stash.get(_SLOW, None):
        terminalreporter.write_line(f"Left out, being slow ({slow.total()}); make nightly runs them too:")
        for name, count in sorted(slow.items()):
            terminalreporter.write_line(f"{count:6} {name}")
