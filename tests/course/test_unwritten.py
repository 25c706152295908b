"""What an unwritten exercise says: where the student reads it, in one line, from a stub that is the same everywhere."""

import pytest

from course import paths
from course.building.stubs import stub_files
from course.errors import NotYetWritten
from course.paths import ROOT, write
from course.registry import find

WEEK = "week04_speculative/week04_speculative.ipynb"


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """A student's folder with a copy of week 4."""
    monkeypatch.setattr(paths, "work_folder", lambda root: tmp_path)
    write(tmp_path / WEEK, "{}")


def test_the_copy_is_named_where_there_is_one(copies):
    for said in (find("4.1").not_yet_written, str(NotYetWritten(find("4.1").stub_message))):
        assert f"read work/{WEEK}, write it in exercises/speculative/acceptance.py, then run: NANOLM_IMPL=" in said
        assert "\n" not in said and "notebooks/" not in said


def test_the_released_notebook_is_named_where_there_is_no_copy(copies):
    assert "read notebooks/week05_quantization/week05_quantization.ipynb, " in find("5.1").not_yet_written


def test_a_stub_is_the_same_whoever_builds_it(copies):
    stub = stub_files(ROOT)["speculative/acceptance.py"]
    assert f"read notebooks/{WEEK}" in stub.replace('"\n        "', "") and "work/" not in stub


def test_without_a_name_it_says_where_to_write():
    def later():
        raise NotYetWritten

    with pytest.raises(NotYetWritten, match=r"^later is not written yet: put your code in the place of the line that"):
        later()
