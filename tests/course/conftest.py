"""What the tests of the tool share."""

import pytest
from two_versions import repository

from course.building.build import build_all
from course.paths import ROOT, write


@pytest.fixture(scope="session")
def untouched(tmp_path_factory):
    """Every file of exercises/ as a build makes it, whatever the one in the repository holds by now."""
    folder = tmp_path_factory.mktemp("untouched")
    for path, text in build_all(ROOT).items():
        if path.startswith("exercises/"):
            write(folder / path.removeprefix("exercises/"), text)
    return folder


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A course in two versions that students have cloned at the first; every test file has one of its own."""
    return repository(tmp_path_factory.mktemp("upstream"))
