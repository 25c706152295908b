"""A student's course in several states, copied from one that is made once: making it takes a dozen calls of git."""

import shutil

import pytest
from two_versions import forget_registry, git

from course.paths import ROOT
from course.work.start import start


@pytest.fixture(scope="session")
def started(cloned, tmp_path_factory):
    """A clone at the first version with copies of its notebooks; to be copied, not changed."""
    folder = shutil.copytree(cloned, tmp_path_factory.mktemp("started") / "course")
    forget_registry()
    start(root=folder)
    return folder


@pytest.fixture
def course(started, tmp_path):
    """A clone at the first version with copies of its notebooks."""
    forget_registry()
    yield shutil.copytree(started, tmp_path / "course")
    forget_registry()


@pytest.fixture
def tool(course):
    """The command's code in the student's clone, so that a process of its own runs it from there; git looks away."""
    code = shutil.ignore_patterns("__pycache__", "*.json")
    shutil.copytree(ROOT / "course", course / "course", ignore=code, dirs_exist_ok=True)
    (course / ".git" / "info").mkdir(exist_ok=True)
    (course / ".git" / "info" / "exclude").write_text("/course/**/*.py\n/pyproject.toml\n", encoding="utf-8")
    (course / "pyproject.toml").touch()  # a clone's; without it the command takes itself for a wheel's
    return course / "course"


@pytest.fixture
def archives(upstream, tmp_path):
    """The two versions unpacked side by side, as from archives of a release."""
    forget_registry()
    folders = []
    for name in ("first", "second"):
        git(upstream, "archive", f"--output={tmp_path / name}.zip", name)
        shutil.unpack_archive(tmp_path / f"{name}.zip", tmp_path / f"{name} unpacked")
        folders.append(tmp_path / f"{name} unpacked")
    yield folders
    forget_registry()
