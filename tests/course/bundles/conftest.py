"""One release of week 4, made once for all tests of it."""

import pytest

from course.bundles.release import release_files


@pytest.fixture(scope="session")
def week4():
    """Return the files of week 4's release by path."""
    return release_files(4)
