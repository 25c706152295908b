"""Tests `benchmarks/grading/`: is the class what it says, does intake read all of it, is a difference found?"""

import ast
import json

import pytest

from benchmarks.grading.__main__ import main
from benchmarks.grading.classes import Student, hand_in, students
from benchmarks.grading.forms import FORMS
from benchmarks.grading.outcome import differences
from course.intake.reading import read_each
from course.intake.submission import ANSWERED, UNWRITTEN, sort_by_student
from course.registry import registry

SIX = [exercise for exercise in registry() if exercise.week == 6]


def read(folder):
    handed, unplaced = sort_by_student([folder])
    left = list(unplaced)
    submissions = list(read_each(6, handed, left))
    assert left == []
    return {submission.student: submission for submission in submissions}


def test_a_seed_gives_the_same_class_again():
    assert students(6, 20) == students(6, 20) != students(6, 20, seed=2)


@pytest.mark.parametrize("week", [4, 6])
def test_a_class_of_two_hundred_has_everybody_in_it(week):
    found = students(week, 200)
    ways = [way for student in found for way in student.ways.values()]
    assert len({student.name for student in found}) == 200
    assert {student.form for student in found} == set(FORMS)
    assert any(not student.answers for student in found)
    assert 0.08 < ways.count("wrong") / len(ways) < 0.17 and {"right", "loop", "exit"} <= set(ways)


def test_every_answer_is_python_and_no_two_students_write_the_same():
    answers = [text for student in students(6, 60) for text in student.answers.values()]
    for text in answers:
        ast.parse(text)
    assert len(set(answers)) == len(answers)


def test_intake_finds_every_answer_of_a_class_and_no_other(tmp_path):
    found = students(6, 15)
    for student in found:
        hand_in(student, tmp_path)
    submissions = read(tmp_path)
    for student in found:
        expected = {e.number: ANSWERED if e.slug in student.answers else UNWRITTEN for e in SIX}
        assert submissions[student.name].states == expected, student.form


@pytest.mark.parametrize("form", FORMS)
def test_whatever_was_done_to_a_notebook_its_answers_are_read(tmp_path, form):
    (complete,) = [student for student in students(6, 40) if len(student.answers) == len(SIX)][:1]
    hand_in(Student("Ana", 6, complete.answers, complete.ways, form), tmp_path)
    assert set(read(tmp_path)["Ana"].states.values()) == {ANSWERED}


def test_two_outcomes_differ_where_a_text_does_or_one_is_missing():
    one, other = {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "3", "d": "4"}
    assert differences(one, other) == ["b", "c", "d"] and differences(one, dict(one)) == []


@pytest.mark.slow
def test_a_run_fills_its_table_and_its_file(tmp_path, capsys):
    main(week=[6], n=2, beside=1, results=tmp_path)
    (found,) = json.loads((tmp_path / "grading.json").read_text(encoding="utf-8"))["weeks"].values()
    assert found["submissions"] == 2 and found["graded by nbgrader"] == 1 and min(found.values()) > 0
    assert "week 6" in capsys.readouterr().out
