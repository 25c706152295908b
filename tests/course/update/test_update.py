"""course update: a new version of the course under the answers of both tracks, and nothing is ever lost."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from small_course import change, everything
from two_versions import (
    AVERAGES,
    COPY,
    LESSON,
    SUMS,
    answer,
    answer_file,
    cells,
    clone,
    edit_notebook,
    forget_registry,
    git,
    insert,
)

from course.errors import CourseError
from course.text import files
from course.update.pull import pull
from course.update.update import update
from course.work.start import start

BUILT = f"notebooks/{LESSON}/{LESSON}.ipynb"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def course(upstream, tmp_path):
    """A clone at the first version with copies of its notebooks."""
    forget_registry()
    start(root=clone(upstream, tmp_path / "course"))
    yield tmp_path / "course"
    forget_registry()


def here(work, saved):
    """Go on in this process, which has to forget what it knows of the first version."""
    forget_registry()
    return update(work.folder, saved, work.root)


def pulled(course):
    return "\n".join(pull(root=course, go_on=here))


def updated(course, **options):
    forget_registry()
    return "\n".join(update(root=course, **options))


def text(course, path):
    return (course / path).read_text(encoding="utf-8")


def outside_git(course):
    return {path: content for path, content in everything(course).items() if not path.startswith(".git/")}


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


# Notebooks


def test_answers_stand_in_the_corrected_lesson(course):
    answer(course / COPY, double="    return x + x", proof="Because.")
    said = pulled(course)
    assert f"{LESSON}: the new version, with 2 answers of yours" in said
    new = cells(course / COPY)
    assert new["double"].endswith("return x + x") and new["proof"] == "Because."
    assert "Some prose." in new.values() and "Prove that it is so." in new["proof-text"]


def test_an_answer_gets_the_corrected_docstring_above_it(course):
    answer(course / COPY, half="    # by two\n    return x / 2")
    pulled(course)
    assert cells(course / COPY)["half"].endswith('"""Return half of a number."""\n    # by two\n    return x / 2')


def test_methods_get_the_corrected_class_around_them_and_bring_their_helpers(course):
    def solve(found):
        tally = next(cell for cell in found if cell["id"] == "Tally")
        body = "        # Write your code here, in the place of the next line.\n        raise NotYetWritten"
        first, middle, last = "".join(tally["source"]).split(body)
        new = "        self.grow(x)", "        return self.value"
        tally["source"] = f"{first}{new[0]}{middle}{new[1]}{last}\n\n    def grow(self, x):\n        self.value += x"

    edit_notebook(course / COPY, solve)
    pulled(course)
    source = cells(course / COPY)["Tally"]
    assert '"""Add a number."""\n        self.grow(x)' in source
    assert source.endswith("    def grow(self, x):\n        self.value += x")


def test_what_a_student_added_to_an_answer_cell_stays_in_it(course):
    answer(course / COPY, half="    return x * SHARE")
    change(course / COPY, "def half", "import sys\\n\\nSHARE = 0.5  # of one\\n\\n\\ndef half")
    change(course / COPY, "return x * SHARE", "return x * SHARE\\n\\n\\nprint(half(3), sys.version)")
    pulled(course)
    source = cells(course / COPY)["half"]
    assert source.startswith("import sys\nSHARE = 0.5  # of one\n\n\ndef half") and "half of a number" in source
    assert source.endswith("print(half(3), sys.version)")


def test_an_answer_whose_exercise_is_gone_or_renamed_is_kept_as_a_file_and_named(course):
    answer(course / COPY, largest="    return sorted(values)[-1]", median="    return 0.0")
    said = pulled(course)
    for name, body in (("largest", "return sorted(values)[-1]"), ("median", "return 0.0")):
        assert f"/{LESSON}/{name}.py: {name} of {LESSON}, because the exercise is gone or has another name" in said
        assert body in only(course / "work" / "kept", f"*/{LESSON}/{name}.py").read_text(encoding="utf-8")
    assert "NotYetWritten" in cells(course / COPY)["maximum"]


def test_cells_of_one_s_own_stay_where_they_stood(course):
    insert(course / COPY, "half", "def scale(x):\n    return x")
    insert(course / COPY, "mean-text", "My notes.", kind="markdown")  # behind an exercise that is gone
    pulled(course)
    sources = list(cells(course / COPY).values())
    keys = list(cells(course / COPY))
    assert keys[sources.index("def scale(x):\n    return x") + 1] == "half"
    assert keys[sources.index("My notes.") + 1] == "mean-text"


def test_a_changed_cell_of_the_lesson_stays_changed_where_the_lesson_s_is_the_same(course):
    change(course / COPY, "number = 3", "number = 30")
    pulled(course)
    assert "number = 30" in cells(course / COPY).values() and "number = 3" not in cells(course / COPY).values()


def test_a_changed_cell_that_the_lesson_has_changed_as_well_is_kept_as_a_file_and_named(course):
    change(course / COPY, "other = 4", "other = 40")
    said = pulled(course)
    assert "other = 5" in cells(course / COPY).values()
    kept = only(course / "work" / "kept", f"*/{LESSON}/cell-*.py")
    assert kept.read_text(encoding="utf-8") == "other = 40\n" and kept.name in said


def test_an_untouched_copy_becomes_the_new_version_byte_for_byte(course):
    pulled(course)
    assert text(course, COPY) == text(course, BUILT)


def test_a_copy_that_was_only_opened_and_run_becomes_the_new_version(course):
    def run(found):
        for cell in found:
            cell["metadata"]["trusted"] = True
            if cell["cell_type"] == "code":
                cell |= {"execution_count": 1, "outputs": []}

    edit_notebook(course / COPY, run)
    assert f"{LESSON}: the new version; nothing of yours was in it" in pulled(course)


def test_outputs_and_the_student_s_kernel_stay_where_the_cell_is_the_same(course):
    def run(found):
        cell = next(cell for cell in found if "".join(cell["source"]) == "number = 3")
        cell |= {"execution_count": 7, "outputs": [{"output_type": "stream", "name": "stdout", "text": ["hello"]}]}

    edit_notebook(course / COPY, run)
    answer(course / COPY, double="    return x + x")
    change(course / COPY, '"name": "python3"', '"name": "mine"')
    pulled(course)
    notebook = json.loads(text(course, COPY))
    assert any(cell.get("execution_count") == 7 for cell in notebook["cells"])
    assert notebook["metadata"]["kernelspec"]["name"] == "mine"


def test_cells_that_lost_metadata_and_ids_are_known_by_what_they_define(course):
    def lose(found):
        for cell in found:
            cell["metadata"] = {}
            del cell["id"]

    answer(course / COPY, half="    return x * 0.5", proof="Because.", largest="    return values[0]")
    edit_notebook(course / COPY, lose)
    said = pulled(course)
    new = cells(course / COPY)
    assert new["half"].endswith("return x * 0.5") and new["proof"] == "Because."
    assert "largest of" in said and len(new) == len(cells(course / BUILT))


def test_of_two_cells_with_one_name_the_answered_one_is_the_answer_and_the_other_stays(course):
    def copy(found):
        place = [cell["id"] for cell in found].index("double")
        source = "".join(found[place]["source"]).replace("raise NotYetWritten", "return x + x")
        found.insert(place + 1, found[place] | {"id": "copied", "source": source})

    edit_notebook(course / COPY, copy)
    pulled(course)
    new = json.loads(text(course, COPY))["cells"]
    graded = [cell for cell in new if cell["metadata"].get("nbgrader", {}).get("grade_id") == "double"]
    assert len(graded) == 1 and "return x + x" in "".join(graded[0]["source"])
    assert len({cell["id"] for cell in new}) == len(new)


def test_an_answer_that_is_not_python_is_put_in_as_it_was_and_named(course):
    answer(course / COPY, half="    return x *")
    said = pulled(course)
    assert f"look: {LESSON}, half: put in as it was, because the cell, line 3: invalid syntax" in said
    assert cells(course / COPY)["half"].endswith("return x *")


def test_answers_written_into_the_built_notebooks_find_their_way_into_the_copies(course):
    answer(course / BUILT, double="    return x + x")
    pulled(course)
    assert cells(course / COPY)["double"].endswith("return x + x")
    assert "    return x + x" not in text(course, BUILT)
    assert git(course, "status", "--porcelain") == ""


def test_without_a_note_of_its_version_a_copy_still_keeps_its_answers(course):
    answer(course / COPY, half="    return x * 0.5", proof="Because.")
    change(course / COPY, "number = 3", "number = 30")
    (course / "work" / ".course.json").unlink()
    pulled(course)
    new = cells(course / COPY)
    assert new["half"].endswith('"""Return half of a number."""\n    return x * 0.5') and new["proof"] == "Because."
    assert "number = 30" in new.values() and "Some prose." in new.values() and "Some prosse." not in new.values()


def test_a_missing_copy_is_made_anew(course):
    shutil.rmtree(course / "work")
    assert f"copied to work/: start, {LESSON}" in pulled(course)
    assert text(course, COPY) == text(course, BUILT)


def test_an_answer_follows_its_exercise_into_another_notebook(course):
    answer(course / COPY, double="    return x + x", median="    return 0.0")
    git(course, "merge", "--quiet", "second")
    lesson = "week02_more_sums"
    shutil.move(course / "notebooks" / LESSON, course / "notebooks" / lesson)
    shutil.move(course / BUILT.replace(LESSON, lesson, 1), course / f"notebooks/{lesson}/{lesson}.ipynb")
    before = (course / COPY).read_bytes()
    said = updated(course)
    assert f"double moved with its exercise: {LESSON} → {lesson}" in said
    assert cells(course / f"work/{lesson}/{lesson}.ipynb")["double"].endswith("return x + x")
    assert f"{LESSON}: the course has no such notebook any more; your copy stays where it is" in said
    assert (course / COPY).read_bytes() == before


# exercises/


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


def test_a_signature_that_changed_upstream_is_named_to_look_at(tmp_path):
    from course.update.carry import carry

    base = 'def f(dice):\n    """Do."""\n    raise NotYetWritten\n'
    done = carry(
        base.replace("raise NotYetWritten", "return dice.roll()"),
        base,
        {"": base.replace("dice", "rng")},
        {"f": ""},
        "",
    )
    assert done.places[""] == 'def f(rng):\n    """Do."""\n    return dice.roll()\n'
    assert done.look == ["f: its arguments were (dice) and are (rng) now; use these names in your answer"]


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


# Safety


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


def test_where_the_new_version_cannot_go_on_the_answers_are_safe_and_the_way_back_is_said(course):
    answer_file(course / SUMS, half="return x * 0.5")
    broken = course / "course" / "update" / "update.py"
    git(course, "update-index", "--assume-unchanged", "course/update/update.py")
    broken.write_text("raise SystemExit(3)\n", encoding="utf-8")
    with pytest.raises(CourseError, match=r"your answers are safe .*: course update --from work/backup/"):
        pull(root=course)
    saved = only(course / "work" / "backup", f"*/{SUMS}")
    assert "return x * 0.5" in saved.read_text(encoding="utf-8")


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


# Without git


@pytest.fixture
def archives(upstream, tmp_path):
    """The two versions unpacked side by side, as from archives of a release."""
    folders = []
    for name in ("first", "second"):
        folder = tmp_path / name
        git(upstream, "worktree", "add", "--detach", "--quiet", str(folder), name)
        shutil.copytree(folder, tmp_path / f"{name} unpacked", ignore=shutil.ignore_patterns(".git"))
        git(upstream, "worktree", "remove", "--force", str(folder))
        folders.append(tmp_path / f"{name} unpacked")
    forget_registry()
    yield folders
    forget_registry()


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


# The command


def test_the_command_pulls_and_puts_answers_back_with_the_new_version_s_own_code(course):
    answer(course / COPY, double="    return x + x")
    answer_file(course / SUMS, half="return x * 0.5", median="return 0.0")
    environment = os.environ | {"PYTHONPATH": str(course)}
    command = [sys.executable, "-m", "course", "update", "--pull"]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True, encoding="utf-8", env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SUMS}: half put back" in done.stdout and "median is no exercise any more" in done.stdout
    assert "double" in cells(course / COPY) and cells(course / COPY)["double"].endswith("return x + x")
    assert git(course, "status", "--porcelain").split() == ["M", SUMS]
