"""Answers in words: a table with the mark scheme beside each answer, and marks that come back in it."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import CourseError
from ..intake.submission import Submission
from ..paths import ROOT, write
from ..registry import Question
from ..text.cells import grade_id
from ..text.files import load, text_of
from .book import Book
from .names import cell, identity
from .names import text_of as name_of

COLUMNS = ("question", "student", "points", "max_points", "comment", "answer", "mark_scheme")


@dataclass(frozen=True)
class HandMark:
    """What a person gives for one answer in words."""

    student: str
    question: Question
    points: float
    comment: str


def schemes(book: Book) -> dict[str, str]:
    """Return the model answer and mark scheme of each question, by its number; empty where solutions/ is not here."""
    found = {question.number: "" for question in book.questions}
    for lesson in book.lessons:
        path = ROOT / lesson.replace("notebooks/", "solutions/", 1)
        for c in load(path)["cells"] if path.is_file() else ():
            for question in book.questions:
                if grade_id(c) == question.slug:
                    found[question.number] = re.sub(r"(?m)^### (?:BEGIN|END) SOLUTION\n?", "", c["source"]).strip()
    return found


def write_marking(path: Path, book: Book, submissions: Sequence[Submission]) -> int:
    """Write the table, question by question, with the points given so far; return how many answers wait for some."""
    scheme, waiting, text = schemes(book), 0, io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(COLUMNS)
    for question in book.questions:
        for each in submissions:
            words = each.written.get(question.number, "")
            if not words:
                continue
            entry = (question.slug, book.notebook_of(question), identity(each.student))
            given, comment = book.grade(*entry).manual_score, book.comment(*entry).manual_comment or ""
            waiting += given is None
            points = "" if given is None else f"{given:g}"
            fields = (question.name, each.student, points, question.points, comment, words, scheme[question.number])
            writer.writerow([cell(str(field)) for field in fields])
    write(path, text.getvalue())
    return waiting


def read_marking(path: Path, book: Book) -> list[HandMark]:
    """Return the marks in a table; rows without points are passed over.

    Raises:
        CourseError: a column is missing, or a row names no such question or student, or points that cannot be; every
            such row is named, and no mark is returned.
    """
    text = text_of(path).removeprefix("\ufeff")
    first = text.partition("\n")[0]
    rows = csv.DictReader(io.StringIO(text), delimiter=";" if first.count(";") > first.count(",") else ",")
    missing = [name for name in COLUMNS[:3] if name not in (rows.fieldnames or ())]
    if missing:
        raise CourseError(f"{path} has no column {' or '.join(missing)}; it needs {', '.join(COLUMNS[:3])}")
    known, by_name = set(book.students()), {key: q for q in book.questions for key in (q.name, q.number)}
    found, wrong = [], []
    for row in rows:
        number = rows.line_num
        try:
            made = _hand_mark(row, known, by_name)
        except ValueError as error:
            wrong.append(f"line {number}: {error}")
            continue
        found += [made] if made is not None else []
    if wrong:
        raise CourseError(f"no mark of {path} was taken: " + "; ".join(wrong[:20]))
    return found


def _hand_mark(row: dict[str, str], known: set[str], questions: dict[str, Question]) -> HandMark | None:
    points = (row["points"] or "").strip().replace(",", ".")
    if not points:
        return None
    student, name = name_of(row["student"] or ""), name_of((row["question"] or "").strip())
    if name not in questions:
        raise ValueError(f"there is no question {name!r}; there are {', '.join(q.name for q in questions.values())}")
    if identity(student) not in known:
        raise ValueError(f"{student!r} has handed nothing in")
    most = questions[name].points
    if not re.fullmatch(r"\d+(?:\.\d+)?", points) or float(points) > most:
        raise ValueError(f"points is {points}; it must be a number from 0 to {most}")
    return HandMark(student, questions[name], float(points), name_of(row.get("comment") or ""))


def enter(book: Book, marks: Sequence[HandMark]) -> None:
    """Enter marks that a person gave into the gradebook."""
    for each in marks:
        entry = (each.question.slug, book.notebook_of(each.question), identity(each.student))
        grade = book.grade(*entry)
        grade.manual_score, grade.needs_manual_grade = each.points, False
        if each.comment:
            book.comment(*entry).manual_comment = each.comment
    book.gradebook.db.commit()
