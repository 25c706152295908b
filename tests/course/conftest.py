"""What the tests of the tool share."""

import shutil

import pytest
from two_versions import clone, repository

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


@pytest.fixture(scope="session")
def upstream(tmp_path_factory):
    """A course in two versions that students have cloned at the first; nobody changes it."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    return repository(tmp_path_factory.mktemp("upstream"))


@pytest.fixture(scope="session")
def cloned(upstream, tmp_path_factory):
    """A clone at the first version; to be copied, not changed."""
    return clone(upstream, tmp_path_factory.mktemp("cloned") / "course")
