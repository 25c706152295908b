"""course update, exercises/: answers in the new stubs, wherever their exercises stand by now."""

import shutil

import pytest
from small_course import change
from two_versions import AVERAGES, SUMS, answer_file, git
from updating import here, only, outside_git, pulled, text, updated

from course.errors import CourseError
from course.update.carry import carry
from course.update.pull import pull


def test_git_alone_refuses_to_pull_over_answers(course):
    answer_file(course / SUMS, double="return x + x")
    assert "error" not in git(course, "pull", "--quiet", check=False)
    assert git(course, "log", "-1", "--format=%s").strip() == "first"


def test_answers_in_exercises_come_back_into_the_new_stubs(course):
    answer_file(course / SUMS, double="return x + x", half="return x * 0.5  # mine", add="self.value += x")
    said = pulled(course)
    assert f"{SUMS}: double, half, Tally.add put back" in said
    new = text(course, SUMS)
    assert '"""Return half of a number."""\n    return x * 0.5  # mine' in new
    assert '"""Add a number."""\n        self.value += x' in new
    assert git(course, "log", "-1", "--format=%s").strip() == "second"


def test_an_answer_follows_its_exercise_into_another_file_with_the_helper_it_uses(course):
    answer_file(course / SUMS, mean="return near(math.fsum(values) / len(values))")
    change(course / SUMS, "def mean", "def near(x):\n    return x\n\n\ndef mean")
    said = pulled(course)
    assert f"{AVERAGES}: mean put back, which came from {SUMS}" in said
    assert "def near(x):\n    return x\n\n\ndef mean" in text(course, AVERAGES)
    assert "return near(math.fsum(values) / len(values))" in text(course, AVERAGES)


def test_an_answer_in_exercises_without_an_exercise_is_kept_and_named(course):
    answer_file(course / SUMS, largest="return values[0]", median="return 0.0")
    said = pulled(course)
    kept = only(course / "work" / "kept", "*/exercises/arithmetic/sums.py")
    assert "return values[0]" in kept.read_text(encoding="utf-8") and "return 0.0" in kept.read_text(encoding="utf-8")
    assert "largest is no exercise any more; median is no exercise any more" in said


def test_what_a_student_changed_in_the_rest_of_a_file_stays_or_is_kept(course):
    change(course / SUMS, 'Begin anew."""\n        self.value = 0.0', 'Begin anew."""\n        self.value = 0')
    change(course / SUMS, "import math", "import math\n\nEDGE = 1")
    pulled(course)
    assert 'Begin anew."""\n        self.value = 0\n' in text(course, SUMS) and "EDGE = 1" in text(course, SUMS)


def test_a_file_that_is_not_python_is_kept_whole_and_named(course):
    answer_file(course / SUMS, double="return x +")
    said = pulled(course)
    assert "sums.py: it could not be read (arithmetic/sums.py, line 10: invalid syntax)" in said
    assert "return x +" in only(course / "work/kept", "*/exercises/arithmetic/sums.py").read_text(encoding="utf-8")


def test_a_file_that_did_not_change_upstream_is_left_byte_for_byte(course, upstream):
    answer_file(course / SUMS, double="return x + x")
    (course / SUMS).write_bytes((course / SUMS).read_bytes() + b"\n\n# my own end\n")
    before = (course / SUMS).read_bytes()
    git(course, "merge", "--quiet", "--strategy=ours", "-m", "nothing of it", "second")
    updated(course)
    assert (course / SUMS).read_bytes() == before


def test_a_signature_that_changed_upstream_is_named_to_look_at():
    base = 'def f(old_rng):\n    """Do."""\n    raise NotYetWritten\n'
    done = carry(
        base.replace("raise NotYetWritten", "return old_rng.roll()"),
        base,
        {"": base.replace("old_rng", "rng")},
        {"f": ""},
        "",
    )
    assert done.places[""] == 'def f(rng):\n    """Do."""\n    return old_rng.roll()\n'
    assert done.look == ["f: its arguments were (old_rng) and are (rng) now; use these names in your answer"]


@pytest.mark.parametrize("way", ["stash", "merge", "rebase"])
def test_conflicts_that_git_left_in_exercises_are_sorted_out(course, way):
    answer_file(course / SUMS, double="return x + x", half="return x * 0.5", median="return 0.0")
    if way == "stash":
        git(course, "stash")
        git(course, "pull", "--quiet")
        git(course, "stash", "pop", check=False)
    else:
        git(course, "commit", "-qam", "my answers")
        git(course, "pull", "--quiet", *(["--rebase"] if way == "rebase" else ["--no-rebase"]), check=False)
    assert "<<<<<<<" in text(course, SUMS) or "UU" in git(course, "status", "--porcelain")
    said = updated(course)
    new = text(course, SUMS)
    assert "<<<<<<<" not in new and "return x + x" in new
    assert '"""Return half of a number."""\n    return x * 0.5' in new
    assert "median is no exercise any more" in said
    assert not [line for line in git(course, "status", "--porcelain").splitlines() if "U" in line[:2]]
    ends = {"stash": "", "merge": "git commit ends the merge", "rebase": "git rebase --continue goes on"}
    assert ends[way] in said


def test_answers_in_files_of_an_older_course_copied_over_this_one_are_put_into_its_stubs(archives):
    old, new = archives
    answer_file(old / SUMS, half="return x * 0.5", mean="return 1.0", median="return 0.0")
    shutil.copy(old / SUMS, new / SUMS)
    shutil.copy(old / SUMS, new / "exercises" / "sums.py")  # where no file of exercises is any more
    change(new / "exercises" / "sums.py", "return 1.0", "return 2.0")
    said = updated(new)
    assert '"""Return half of a number."""\n    return x * 0.5' in text(new, SUMS)
    assert "return 1.0" in text(new, AVERAGES) and "def median" in text(new, SUMS)
    assert "mean is answered in arithmetic/averages.py already" in said


def test_commits_of_one_s_own_are_for_git_to_pull_and_for_update_to_sort_out(course):
    answer_file(course / SUMS, double="return x + x")
    git(course, "commit", "-qam", "my answers")
    before = outside_git(course)
    with pytest.raises(CourseError, match=r"there are commits of your own.* run git pull, then course update"):
        pull(root=course, go_on=here)
    assert outside_git(course) == before
