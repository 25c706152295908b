"""course update takes answers from an older course or a backup, without git too."""

import pytest
from small_course import change, everything
from two_versions import AVERAGES, COPY, SUMS, answer, answer_file, cells, git
from updating import here, only, pulled, text, updated

from course.errors import CourseError
from course.update.pull import pull
from course.work.start import start


def test_answers_of_both_tracks_come_from_an_older_course_beside_this_one_which_is_only_read(archives):
    old, new = archives
    start(root=old)
    answer(old / COPY, half="    return x * 0.5")
    answer_file(old / SUMS, double="return x + x", mean="return 1.0", median="return 0.0")
    (old / "exercises" / "tools.py").write_text("def mine():\n    return 1\n", encoding="utf-8")
    before = everything(old)
    said = updated(new, old=old)
    assert everything(old) == before
    assert cells(new / COPY)["half"].endswith('"""Return half of a number."""\n    return x * 0.5')
    assert "return x + x" in text(new, SUMS) and "return 1.0" in text(new, AVERAGES)
    assert "median is no exercise any more" in said and (new / "exercises" / "tools.py").exists()


def test_a_backup_can_be_put_back(course):
    answer(course / COPY, double="    return x + x")
    answer_file(course / SUMS, half="return x * 0.5", median="return 0.0")
    pulled(course)
    git(course, "checkout", "--", "exercises")
    saved = only(course / "work" / "backup", "*/exercises").parent
    assert f"{SUMS}: half put back" in updated(course, old=saved)
    assert "return x * 0.5" in text(course, SUMS)


def test_an_answer_that_is_there_already_is_not_replaced_by_an_older_one(course):
    answer_file(course / SUMS, half="return x * 0.5")
    pulled(course)
    change(course / SUMS, "return x * 0.5", "return x / 2")
    saved = only(course / "work" / "backup", "*/exercises").parent
    assert f"half is answered in {SUMS.removeprefix('exercises/')} already" in updated(course, old=saved)
    assert "return x / 2" in text(course, SUMS)


def test_without_git_a_pull_says_how_it_goes(archives):
    with pytest.raises(CourseError, match="is no git clone: unpack the new version beside it"):
        pull(root=archives[0], go_on=here)
