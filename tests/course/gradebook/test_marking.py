"""Answers in words: a table to mark in, and marks out of it."""

import csv

import pytest
from classroom import QuickJudge

from course.errors import CourseError
from course.gradebook.grade import grade, take_marks


@pytest.fixture
def words(classroom, grading):
    """The table of a class that has been graded."""
    path = grading / "words.csv"
    assert grade(4, [classroom], None, QuickJudge(), folder=grading, seed=1, marking=path).to_mark == 6
    return path


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path, found, delimiter=",", encoding="utf-8"):
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(found[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(found)


def test_the_student_s_words_stand_beside_the_mark_scheme(words):
    found = rows(words)
    assert {row["question"] for row in found} == {"proof of exactness", "expected gain"}
    assert [row["question"] for row in found] == sorted((row["question"] for row in found), reverse=True)
    assert all(row["answer"] and row["mark_scheme"] and row["points"] == "" for row in found)
    assert not any("BEGIN SOLUTION" in row["mark_scheme"] for row in found)
    assert "untouched" not in {row["student"] for row in found}


@pytest.mark.parametrize(("delimiter", "encoding", "points"), [(",", "utf-8", "7.5"), (";", "utf-8-sig", "7,5")])
def test_marks_come_back_as_a_spreadsheet_writes_them(words, grading, delimiter, encoding, points):
    found = rows(words)
    for row in found[:3]:
        row["points"], row["comment"] = points, "=a good proof"
    write(words, found, delimiter, encoding)
    assert take_marks(4, words, grading / "marks.csv", grading) == 3
    marked = [row for row in rows(grading / "marks.csv") if row["state"] == "marked"]
    assert len(marked) == 3 and {row["points"] for row in marked} == {"7.5"}
    assert {row["student"] for row in marked} == {"right", "Ana, María", "'=cmd_x"}


def test_marks_stay_when_the_class_is_graded_again(words, grading, classroom):
    found = rows(words)
    found[0]["points"] = "3"
    write(words, found)
    take_marks(4, words, None, grading)
    report = grade(4, [classroom], None, QuickJudge(), folder=grading, marking=words)
    assert report.to_mark == 5 and rows(words)[0]["points"] == "3"


@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("points", "9", "points is 9; it must be a number from 0 to 8"),
        ("points", "-1", "it must be a number"),
        ("points", "many", "it must be a number"),
        ("points", "nan", "it must be a number"),
        ("student", "nobody", "'nobody' has handed nothing in"),
        ("question", "why", "there is no question 'why'"),
    ],
)
def test_a_row_that_cannot_be_is_named_and_no_mark_is_taken(words, grading, column, value, complaint):
    found = rows(words)
    found[0]["points"] = "1"
    found[1] |= {"points": "1"} | {column: value}
    write(words, found)
    with pytest.raises(CourseError) as error:
        take_marks(4, words, None, grading)
    assert complaint in str(error.value) and "line" in str(error.value)
    found[1]["points"] = ""
    write(words, found)
    assert take_marks(4, words, None, grading) == 1  # nothing was marked before


def test_a_table_without_the_columns_says_which(tmp_path, grading):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(CourseError, match="has no column question or student or points"):
        take_marks(4, tmp_path / "t.csv", None, grading)
