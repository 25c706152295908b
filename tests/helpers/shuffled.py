"""A pytest plugin: `--shuffle SEED` runs files in a random order, and the tests of each file in one of their own."""

import random

import pytest


def pytest_addoption(parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests in each, in a random order")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items) -> None:
    """A file stays together, so that what its tests share is made once; every process shuffles alike."""
    seed = config.getoption("--shuffle")
    if seed is None:
        return
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    shuffled, rng = list(files.values()), random.Random(seed)
    rng.shuffle(shuffled)
    for tests in shuffled:
        rng.shuffle(tests)
    items[:] = [item for tests in shuffled for item in tests]


def pytest_report_header(config) -> str | None:
    seed = config.getoption("--shuffle")
    return None if seed is None else f"in a random order (--shuffle {seed} repeats it)"
