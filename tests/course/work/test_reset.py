"""course reset: one exercise as it was at first, and a copy of what was there."""

import shutil

import pytest
from small_course import change, everything
from two_versions import COPY, SUMS, answer, answer_file, cells, forget_registry

from course.errors import CourseError
from course.work.reset import reset
from course.work.start import start

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def course(cloned, tmp_path):
    """A clone with two exercises answered on both tracks."""
    forget_registry()
    root = shutil.copytree(cloned, tmp_path / "course")
    start(root=root)
    answer(root / COPY, double="    return x + x", half="    return x * 0.5", proof="Because.")
    answer_file(root / SUMS, double="return x + x", half="return x * 0.5", add="self.value += x", total="return 0.0")
    yield root
    forget_registry()


def text(course, path):
    return (course / path).read_text(encoding="utf-8")


def test_both_tracks_get_the_stub_back_and_nothing_else_changes(course):
    said = reset("1.2", root=course)
    assert said[0] == f"1.2 half is as it was at first in {COPY}"
    assert said[1] == f"1.2 half is as it was at first in {SUMS}"
    assert cells(course / COPY)["half"].endswith("raise NotYetWritten")
    assert cells(course / COPY)["double"].endswith("return x + x")
    assert "return x * 0.5" not in text(course, SUMS) and "exercise 1.2 half is not written" in text(course, SUMS)
    assert "return x + x" in text(course, SUMS)


@pytest.mark.parametrize(("track", "changed", "same"), [("notebook", COPY, SUMS), ("editor", SUMS, COPY)])
def test_one_track_alone(course, track, changed, same):
    before = everything(course)
    reset("half", track, root=course)
    after = everything(course)
    assert after[same] == before[same] and after[changed] != before[changed]


def test_the_backup_holds_the_files_as_they_were_and_its_place_is_said(course):
    notebook, exercises = (course / COPY).read_bytes(), (course / SUMS).read_bytes()
    said = "\n".join(reset("half", root=course))
    (backup,) = (course / "work" / "backup").iterdir()
    assert f"your files as they were before: work/backup/{backup.name}/" in said
    assert (backup / COPY).read_bytes() == notebook and (backup / SUMS).read_bytes() == exercises


def test_all_methods_of_an_exercise_are_reset(course):
    reset("Tally", "editor", root=course)
    assert "self.value += x" not in text(course, SUMS) and "return 0.0" not in text(course, SUMS)
    assert text(course, SUMS).count("exercise 1.6 Tally is not written yet") == 2


def test_an_answer_in_words_is_reset_too(course):
    reset("1.7", root=course)
    assert cells(course / COPY)["proof"] == "YOUR ANSWER HERE"


def test_an_exercise_that_nobody_has_written_is_left_alone_and_said(course):
    before = everything(course)
    assert reset("1.4", root=course) == ["1.4 mean is not written; nothing to reset"]
    assert everything(course) == before


def test_an_unknown_exercise_is_refused_with_the_nearest_names(course):
    with pytest.raises(CourseError, match="there is no exercise 'hafl'; did you mean half"):
        reset("hafl", root=course)
    with pytest.raises(CourseError, match=r"there is no exercise '1.77'; did you mean 1"):
        reset("1.77", root=course)


def test_an_unknown_track_is_refused(course):
    with pytest.raises(CourseError, match="--track is 'paper'; it is notebook or editor"):
        reset("half", "paper", root=course)


def test_a_file_that_is_not_python_is_refused_and_no_file_changes(course):
    change(course / SUMS, "return x + x", "return x +")
    before = everything(course)
    with pytest.raises(CourseError, match=r"sums.py, line \d+: invalid syntax: mend that line first"):
        reset("half", root=course)
    assert everything(course) == before


def test_a_copy_that_is_no_notebook_is_refused_and_no_file_changes(course):
    (course / COPY).write_text("{", encoding="utf-8")
    before = everything(course)
    with pytest.raises(CourseError, match=r"week01_sums.ipynb is not a notebook: it is not JSON"):
        reset("half", root=course)
    assert everything(course) == before
