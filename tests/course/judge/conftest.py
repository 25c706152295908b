"""One judge for the tests of a room: a server takes seconds to start, and has to stand every attack anyway."""

import warnings

import pytest

from course.judge.isolation import SANDBOXES
from course.judge.judge import Judge
from course.judge.messages import Limits
from course.judge.sandbox import kind

BRIEF = Limits(test_seconds=6, seconds=20, gigabytes=4)


@pytest.fixture(scope="session")
def sandboxed():
    """A judge in a sandbox; where there is none, the tests that ask for it are skipped and a warning says so."""
    found, why = kind()
    if found not in SANDBOXES:
        warnings.warn(f"THE SANDBOX IS NOT TESTED HERE: {why}", RuntimeWarning, stacklevel=1)
        pytest.skip(f"no sandbox: {why}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NANOLM_SECRET", "of the one who grades")
        with Judge(workers=2, sandbox=True, limits=BRIEF) as judge:
            yield judge


@pytest.fixture(scope="session")
def plain():
    """A judge of plain processes."""
    with Judge(sandbox=False, limits=BRIEF) as judge:
        yield judge
