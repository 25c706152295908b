"""course status and course check over both tracks: which answer came from where, and what the tests of each say."""

import io
import shutil

import pytest
from rich.console import Console
from two_versions import answer, answer_file, insert

from course.building.stubs import stub_files
from course.grading.status import next_step, show
from course.paths import ROOT, write
from course.registry import questions, registry
from course.work.check import check
from course.work.layout import Work
from course.work.start import start
from course.work.tracks import in_words, standings_of

COPY = "work/week02_kv_cache/week02_kv_cache.ipynb"
FILE = "exercises/budget/memory.py"
RIGHT = "require_positive(n_params=n_params, weight_bits=weight_bits)\n    return math.ceil(n_params * weight_bits / 8)"
SAME = RIGHT.replace("n_params, w", "n_params,\n                     w").replace("bits)\n", "bits)  # first\n")
NAMES = ("weight_bytes", "kv_bytes_per_token", "KVCache")


@pytest.fixture
def course(tmp_path):
    """This course, with exercises that nobody has touched and copies of its notebooks."""
    root = tmp_path / "course"
    for name in ("notebooks", "nanolm"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    (root / "course").mkdir()
    for name in ("registry.json", "built.json"):
        shutil.copy(ROOT / "course" / name, root / "course" / name)
    for path, text in stub_files(root).items():
        write(root / "exercises" / path, text)
    start(root=root)
    return root


def found(course):
    exercises = [exercise for exercise in registry(course) if exercise.name in NAMES]
    standings, remarks = standings_of(exercises, Work.at(root=course))
    return {standing.exercise.name: standing for standing in standings}, remarks


def shown(course):
    standings, _ = found(course)
    out = io.StringIO()
    week = [question for question in questions(course) if question.week == 2]
    show(list(standings.values()), Console(file=out, width=120), in_words(Work.at(root=course), week))
    return out.getvalue()


def test_an_answer_in_a_copy_of_a_notebook_is_found_and_tested_with_the_helper_it_uses(course):
    answer(course / COPY, weight_bytes=f"    {RIGHT.replace('math.ceil', 'up')}")
    insert(course / COPY, "weight_bytes", "def up(x):\n    return math.ceil(x)")
    standings, _ = found(course)
    assert (standings["weight_bytes"].state, standings["weight_bytes"].answer) == ("passes", "notebook")
    assert standings["kv_bytes_per_token"].state == "not written"


def test_an_answer_in_exercises_is_found_and_tested(course):
    answer_file(course / FILE, weight_bytes=RIGHT)
    standings, _ = found(course)
    assert (standings["weight_bytes"].state, standings["weight_bytes"].answer) == ("passes", "editor")


def test_two_answers_that_say_the_same_are_tested_once(course):
    answer(course / COPY, weight_bytes=f"    {RIGHT}")
    answer_file(course / FILE, weight_bytes=SAME)
    standings, _ = found(course)
    assert standings["weight_bytes"].answer == "notebook and editor, alike"
    assert standings["weight_bytes"].state == "passes" and standings["weight_bytes"].other is None


def test_two_answers_that_differ_are_both_tested_and_both_named(course):
    answer(course / COPY, weight_bytes="    return 1")
    answer_file(course / FILE, weight_bytes=RIGHT)
    standings, _ = found(course)
    one = standings["weight_bytes"]
    assert (one.answer, one.state, one.other.answer, one.other.state) == ("notebook", "fails", "editor", "passes")
    text = shown(course)
    assert "2.10 weight_bytes has two answers: in the notebook it fails, in the editor it passes" in text
    assert "1 of 17 points" in text, "an exercise is won where one of its answers passes"
    assert not next_step([one]).startswith("next: exercise 2.10")


def test_an_exercise_of_several_methods_of_which_some_are_written_says_how_many(course):
    answer_file(course / "exercises/cache/contiguous.py", advance="self.length += n")
    standings, _ = found(course)
    assert (standings["KVCache"].state, standings["KVCache"].answer) == ("not written", "editor: 1 of 4")


def test_what_is_not_written_is_told_with_the_copy_the_file_and_the_command(course):
    standings, _ = found(course)
    said = next_step([standings["weight_bytes"]])
    assert f"answer it in {COPY}, or write it in {FILE} and run: NANOLM_IMPL=exercises python -m pytest" in said


def test_questions_in_words_count_and_are_graded_by_hand(course):
    week_2 = [question for question in questions(course) if question.week == 2]
    minutes = sum(each.minutes for each in [*week_2, *(each for each in registry() if each.name in NAMES)])
    by_hand = sum(question.points for question in week_2)
    text = f"0 of 17 points ({by_hand} of them graded by hand), about {minutes} minutes left"
    assert text in " ".join(shown(course).split())


def test_an_answer_that_is_not_python_fails_with_its_place(course):
    answer(course / COPY, weight_bytes="    return n_params *")
    answer_file(course / "exercises/cache/contiguous.py", advance="self.length +=")
    standings, _ = found(course)
    assert standings["weight_bytes"].state == standings["KVCache"].state == "fails"
    assert f"{COPY}, weight_bytes: its cell, line" in next_step([standings["weight_bytes"]])
    assert "exercises/cache/contiguous.py, line" in next_step([standings["KVCache"]])


def test_a_file_that_is_not_utf_8_fails_in_one_line(course):
    (course / FILE).write_bytes((course / FILE).read_bytes() + "# Zürich".encode("latin-1"))
    standings, _ = found(course)
    assert "memory.py is not in UTF-8" in next_step([standings["weight_bytes"]])


def test_a_notebook_that_is_none_is_one_remark_and_the_other_track_goes_on(course):
    (course / COPY).write_text("{", encoding="utf-8")
    answer_file(course / FILE, weight_bytes=RIGHT)
    standings, remarks = found(course)
    assert standings["weight_bytes"].state == "passes"
    (remark,) = remarks
    assert remark.startswith(f"{COPY} is not a notebook: it is not JSON")


def test_without_copies_the_editor_s_answers_stand_alone_and_the_way_to_copies_is_said(course):
    shutil.rmtree(course / "work")
    answer_file(course / FILE, weight_bytes=RIGHT)
    standings, remarks = found(course)
    assert standings["weight_bytes"].state == "passes"
    assert remarks == ["there are no notebooks in work/ yet: course start puts copies there"]


def checked(course):
    lines, passes = check("weight_bytes", Work.at(root=course))
    return "\n".join(lines), passes


def test_check_tells_an_unwritten_exercise_with_what_to_do(course):
    said, passes = checked(course)
    assert not passes and "weight_bytes is not written yet: answer it in work/week02" in said


def test_check_tells_a_right_answer_with_its_points_and_where_it_stands(course):
    answer(course / COPY, weight_bytes=f"    {RIGHT}")
    said, passes = checked(course)
    assert passes and "tests passed" in said and said.endswith("(the answer in the notebook)")


def test_check_tells_a_wrong_answer_by_its_tests_as_a_notebook_does(course):
    answer_file(course / FILE, weight_bytes=RIGHT.replace("math.ceil(n_params * weight_bits / 8)", "n_params"))
    said, passes = checked(course)
    assert not passes and "weight_bytes: " in said and " tests failed" in said and "for the tests that pass" in said
    assert said.endswith("(the answer in the editor)")


def test_check_tells_both_answers_where_they_differ_and_is_content_with_one(course):
    answer(course / COPY, weight_bytes="    return 1")
    answer_file(course / FILE, weight_bytes=RIGHT)
    said, passes = checked(course)
    assert passes and "(the answer in the notebook)" in said and "(the answer in the editor)" in said


def test_check_tells_a_file_that_cannot_be_read(course):
    write(course / FILE, "def weight_bytes(:")
    said, passes = checked(course)
    assert not passes and "memory.py" in said
