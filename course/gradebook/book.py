"""nbgrader's gradebook: written by one process at a time, so that formgrader, feedback and export work as always."""

import json
import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import psutil
from nbgrader.api import Comment, Grade, Gradebook
from sqlalchemy.exc import SAWarning

from ..errors import CourseError
from ..intake.submission import Submission
from ..judge.marks import PASSED, SUSPICIOUS, Mark
from ..paths import ROOT, read, write
from ..registry import Exercise, Question, questions, registry
from ..text.cells import grade_id
from ..text.files import load
from .canonical import graded_notebook
from .names import identity


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keep every other process from writing the gradebook of a folder; raise CourseError where one does already."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / "course-grade.lock"
    try:
        with lock.open("x", encoding="utf-8") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        other = read(lock).strip()
        if other.isdecimal() and int(other) != os.getpid() and psutil.pid_exists(int(other)):
            raise CourseError(f"process {other} is writing {folder} now; wait for it, or delete {lock}") from None
        lock.write_text(str(os.getpid()), encoding="utf-8")  # its process was killed
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


@contextmanager
def _programs_found() -> Iterator[None]:
    """A new gradebook calls the program alembic by its name; it lies beside this Python, perhaps not on the path."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


class Book:
    """A week in nbgrader's gradebook; a context manager.

    Args:
        folder: grading/, with gradebook.db, autograded/ and submitted/ in it.
    """

    def __init__(self, folder: Path, week: int) -> None:
        self.folder, self.week = folder, week
        self.exercises = [exercise for exercise in registry() if exercise.week == week]
        self.questions = [question for question in questions() if question.week == week]
        self.lessons = list(dict.fromkeys(exercise.notebook for exercise in self.exercises))
        self.assignment = PurePosixPath(self.lessons[0]).parent.name
        self._read, self._names = "", dict[str, str]()
        self._kept: dict[tuple[str, str], list[Any]] = {}
        self._released = {lesson: load(ROOT / lesson) for lesson in self.lessons}

    def __enter__(self) -> "Book":
        self.folder.mkdir(parents=True, exist_ok=True)
        with _programs_found():
            self.gradebook: Any = Gradebook(f"sqlite:///{(self.folder / 'gradebook.db').resolve().as_posix()}")
        return self

    def __exit__(self, *error: object) -> None:
        self.gradebook.close()

    def register(self) -> None:
        """Enter the week's notebooks and cells as `nbgrader generate_assignment` does; what is there stays."""
        self.gradebook.update_or_create_assignment(self.assignment)
        for lesson in self.lessons:
            names = (PurePosixPath(lesson).stem, self.assignment)
            kernel = json.dumps(self._released[lesson]["metadata"]["kernelspec"])  # `nbgrader autograde` puts it back
            self.gradebook.update_or_create_notebook(*names, kernelspec=kernel)
            for cell in self._released[lesson]["cells"]:
                if grade_id(cell):
                    self._register(cell, names)
        everything = self.gradebook.find_assignment(self.assignment).notebooks
        self._names = {cell.id: cell.name for notebook in everything for cell in notebook._base_cells}

    def _register(self, cell: Mapping[str, Any], names: tuple[str, str]) -> None:
        note, kind = cell["metadata"]["nbgrader"], cell["cell_type"]
        book, name = self.gradebook, note["grade_id"]
        if note.get("grade"):
            book.update_or_create_grade_cell(name, *names, max_score=float(note["points"]), cell_type=kind)
        if note.get("solution"):
            book.update_or_create_solution_cell(name, *names)
        source = {"cell_type": kind, "locked": bool(note.get("locked")), "source": cell["source"]}
        book.update_or_create_source_cell(name, *names, **source, checksum=note.get("checksum"))

    def write(self, submission: Submission, marks: Mapping[str, Mark]) -> None:
        """Enter a student's marks, and put the graded notebooks where formgrader looks for them.

        What a person has given stays; where the mark below it is another one now, the cell asks to be looked at again.
        """
        student = identity(submission.student)
        own_name = {} if student == submission.student else {"last_name": submission.student}
        self.gradebook.update_or_create_student(student, **own_name)
        timestamp = self._timestamp(student)
        times = {"timestamp": timestamp} if timestamp else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # of nbgrader's own way to add rows
            self.gradebook.update_or_create_submission(self.assignment, student, **times)
        self._read = ""
        for exercise in self.exercises:
            if exercise.number in marks:
                self._enter(exercise, student, marks[exercise.number])
        for question in self.questions:
            self._ask_for_a_mark(question, student, submission.written.get(question.number, ""))
        self.gradebook.db.commit()
        self._put_notebooks(submission, student, marks)

    def _timestamp(self, student: str) -> str:
        """When nbgrader took the submission in, where it did: formgrader compares the two."""
        path = self.folder / "submitted" / student / self.assignment / "timestamp.txt"
        return read(path).strip() if path.is_file() else ""

    def _enter(self, exercise: Exercise, student: str, mark: Mark) -> None:
        notebook = PurePosixPath(exercise.notebook).stem
        grade = self.grade(f"{exercise.slug}-check", notebook, student)
        is_new = grade.auto_score != mark.points
        grade.auto_score = mark.points
        if mark.state == SUSPICIOUS:
            grade.needs_manual_grade = grade.manual_score is None
        elif grade.manual_score is None or is_new:
            grade.needs_manual_grade = grade.manual_score is not None
        comment = self.comment(exercise.slug, notebook, student)
        comment.auto_comment = None if mark.state == PASSED else _as_code(f"{mark.feedback}\n[{mark.version}]")

    def _ask_for_a_mark(self, question: Question, student: str, words: str) -> None:
        notebook = self.notebook_of(question)
        grade = self.grade(question.slug, notebook, student)
        comment = self.comment(question.slug, notebook, student)
        comment.auto_comment = None if words else "No response."
        grade.auto_score = None if words else 0.0
        grade.needs_manual_grade = bool(words) and grade.manual_score is None

    def notebook_of(self, question: Question) -> str:
        """Return the name of the notebook that a question stands in."""
        for lesson in self.lessons:
            if any(grade_id(cell) == question.slug for cell in self._released[lesson]["cells"]):
                return PurePosixPath(lesson).stem
        raise CourseError(
            f"question {question.number} stands in no notebook of week {self.week}; `course build` makes them"
        )

    def grade(self, cell: str, notebook: str, student: str) -> Any:
        """Return the entry of a cell's points; one that a newer lesson has brought is made."""
        found, here = self._entries(student)[notebook, cell], (cell, notebook, self.assignment)
        if found[0] is None:
            found[0] = Grade(
                cell_id=self.gradebook.find_grade_cell(*here).id, notebook=self._notebook(notebook, student)
            )
            self.gradebook.db.add(found[0])
        return found[0]

    def comment(self, cell: str, notebook: str, student: str) -> Any:
        """Return the entry of a cell's comment, likewise."""
        found, here = self._entries(student)[notebook, cell], (cell, notebook, self.assignment)
        if found[1] is None:
            made = Comment(
                cell_id=self.gradebook.find_solution_cell(*here).id, notebook=self._notebook(notebook, student)
            )
            found[1] = made
            self.gradebook.db.add(made)
        return found[1]

    def _entries(self, student: str) -> dict[tuple[str, str], list[Any]]:
        """By notebook and cell, [points, comment] of a student, read at once: one by one they take half a second."""
        if self._read != student:
            self._read, self._kept = student, defaultdict(lambda: [None, None])
            for notebook in self.gradebook.find_submission(self.assignment, student).notebooks:
                for grade in notebook.grades:
                    self._kept[notebook.name, self._names[grade.cell_id]][0] = grade
                for comment in notebook.comments:
                    self._kept[notebook.name, self._names[comment.cell_id]][1] = comment
        return self._kept

    def _notebook(self, notebook: str, student: str) -> Any:
        return self.gradebook.find_submission_notebook(notebook, self.assignment, student)

    def _put_notebooks(self, submission: Submission, student: str, marks: Mapping[str, Mark]) -> None:
        folder = self.folder / "autograded" / student / self.assignment
        exercises = {exercise.slug: exercise for exercise in self.exercises}
        asked = {question.slug: question for question in self.questions}
        for lesson in self.lessons:
            text = graded_notebook(lesson, submission, marks, exercises, asked)
            write(folder / PurePosixPath(lesson).name, text)

    def students(self) -> Sequence[str]:
        """Return everybody in the gradebook, by the names they have in files."""
        return [student.id for student in self.gradebook.students]


def _as_code(text: str) -> str:
    """A comment that is shown as it is, whatever a student's error message has in it."""
    return "\n".join(f"    {line}" for line in text.splitlines())
