"""course update never loses a line, and where it cannot go on every file is as it was."""

import re

import pytest
from small_course import change, everything
from two_versions import AVERAGES, COPY, LESSON, SUMS, answer, answer_file, git, insert
from updating import here, only, outside_git, pulled, text, updated

from course.errors import CourseError
from course.text import files
from course.update.pull import pull


def test_every_line_that_a_student_wrote_is_in_the_notebook_in_exercises_or_kept(course):
    bodies = {
        name: f"    # m{i}\n    return {i}000" for i, name in enumerate(["double", "half", "largest", "mean", "median"])
    }
    answer(course / COPY, **bodies, proof="m5")
    for number, place in enumerate(["double", "half-text", "median", "Tally-check", "proof"], start=6):
        insert(course / COPY, place, f"# m{number}\nx{number} = {number}")
    for old, new in [
        ("number = 3", "number = 3  # m11"),
        ("other = 4", "other = 4  # m12"),
        ("Some prosse", "m13 prosse"),
    ]:
        change(course / COPY, old, new)
    answer_file(
        course / SUMS, half="return 14  # m14", mean="return 15  # m15", median="return m16", add="self.m17 = x"
    )
    change(course / SUMS, "import math", "import math\nimport m18")
    change(course / SUMS, "def mean", "# m19\n\n\ndef mean")
    change(course / SUMS, "class Tally:", "class Tally:  # m20")
    change(course / SUMS, "def clear", "m21 = 3\n\n    def m22(self):\n        pass\n\n    def clear")
    change(course / SUMS, '"""Begin anew."""', '"""Begin anew m23."""')
    (course / SUMS).write_text(text(course, SUMS) + "\n\nm24 = 1\n# m25\n", encoding="utf-8")
    pulled(course)
    places = [course / COPY, *(course / "exercises").rglob("*.py"), *(course / "work" / "kept").rglob("*")]
    written = "\n".join(path.read_text(encoding="utf-8") for path in places if path.is_file())
    assert not [f"m{number}" for number in range(26) if not re.search(rf"\bm{number}\b", written)]


def test_a_file_that_is_not_python_at_the_moment_stays_and_hinders_no_other(course):
    answer_file(course / SUMS, double="return x + x", mean="return 1.0")
    pulled(course)
    change(course / AVERAGES, "return 1.0", "return 1.")
    (course / AVERAGES).write_text(text(course, AVERAGES) + "def half a", encoding="utf-8")
    before = text(course, AVERAGES)
    git(course, "checkout", "--", SUMS)
    saved = only(course / "work" / "backup", "*/exercises").parent
    said = updated(course, old=saved)
    assert f"{SUMS}: double put back" in said and text(course, AVERAGES) == before
    assert f"mean belongs into {AVERAGES}, which is not Python at the moment" in said


def test_a_file_that_is_not_utf_8_stops_the_update_in_one_line(course):
    (course / SUMS).write_bytes((course / SUMS).read_bytes() + "# Zürich".encode("latin-1"))
    before = everything(course)
    with pytest.raises(CourseError, match=r"sums.py is not in UTF-8 \(invalid \w+ byte at byte \d+\): save it"):
        updated(course)
    assert everything(course) == before


def test_a_comment_between_functions_that_has_no_place_is_named(course):
    change(course / SUMS, "def mean", "# remember the milk\n\n\ndef mean")
    assert "the line '# remember the milk' has no place" in pulled(course)


def test_everything_that_changed_lies_in_the_backup_as_it_was(course):
    answer(course / COPY, double="    return x + x")
    answer_file(course / SUMS, half="return x * 0.5")
    notebook, exercises = (course / COPY).read_bytes(), (course / SUMS).read_bytes()
    pulled(course)
    assert only(course / "work" / "backup", f"*/work/{LESSON}/{LESSON}.ipynb").read_bytes() == notebook
    assert only(course / "work" / "backup", f"*/{SUMS}").read_bytes() == exercises


def test_a_second_update_changes_nothing(course):
    answer(course / COPY, double="    return x + x", largest="    return values[0]")
    answer_file(course / SUMS, half="return x * 0.5", median="return 0.0")
    pulled(course)
    before = outside_git(course)
    assert updated(course) == "everything is up to date already; nothing was changed"
    assert "nothing new upstream" in pulled(course)
    assert outside_git(course) == before


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{not json", r"work/week01_sums/week01_sums.ipynb is not a notebook: it is not JSON"),
        ("[]", "is not a notebook: it has no list of cells"),
        (
            '{"cells": [], "metadata": {}}',
            "has no cell of this lesson in it: mend it or move it elsewhere, then run this again",
        ),
        (
            '{"cells": [{"cell_type": "code", "id": "a1b2", "metadata": {}, "source": "of another course"}]}',
            "has no cell of this lesson in it",
        ),
    ],
)
def test_a_copy_that_is_no_notebook_of_the_lesson_stops_the_update_and_no_file_changes(course, content, complaint):
    answer_file(course / SUMS, half="return x * 0.5")
    (course / COPY).write_text(content, encoding="utf-8")
    git(course, "stash", "-q")
    git(course, "merge", "--quiet", "second")
    before = everything(course)
    with pytest.raises(CourseError, match=complaint):
        updated(course)
    assert everything(course) == before


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{not json", "is not a notebook: it is not JSON"), ('{"cells": []}', "has no cell of this lesson in it")],
)
def test_a_copy_that_is_no_notebook_of_the_lesson_stops_a_pull_before_git_moves(course, content, complaint):
    (course / COPY).write_text(content, encoding="utf-8")
    answer_file(course / SUMS, half="return x * 0.5")
    before = everything(course)
    with pytest.raises(CourseError, match=rf"{complaint}.*mend it or move it elsewhere, then run this again"):
        pull(root=course, go_on=here)
    assert everything(course) == before


def test_an_update_that_cannot_write_leaves_every_file_as_it_was(course, monkeypatch):
    answer(course / COPY, half="    return x * 0.5")
    git(course, "merge", "--quiet", "second")
    before, real = everything(course), files.put

    def full(path, content):
        if path.name == ".course.json" and content is not None:
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(files, "put", full)
    with pytest.raises(CourseError, match="No space left on device; every file is as it was"):
        updated(course)
    assert everything(course) == before


def test_a_pull_that_git_refuses_leaves_every_file_as_it_was(course):
    answer_file(course / SUMS, half="return x * 0.5")
    change(course / f"solutions/{LESSON}.py", "Some prosse", "Some other prose")
    before = outside_git(course)
    with pytest.raises(CourseError, match=r"would be overwritten by merge(.|\n)*every file is as it was"):
        pull(root=course, go_on=here)
    after = outside_git(course)
    assert {path: after[path] for path in before} == before  # there is a backup now besides
    assert git(course, "log", "-1", "--format=%s").strip() == "first"


@pytest.mark.parametrize("kind", ["a file", "nothing of a course"])
def test_a_folder_that_answers_cannot_come_from_is_refused_in_one_line(course, tmp_path, kind):
    (tmp_path / "a file").write_text("", encoding="utf-8")
    (tmp_path / "nothing of a course").mkdir()
    with pytest.raises(CourseError, match="is no folder of a course or a backup"):
        updated(course, old=tmp_path / kind)
