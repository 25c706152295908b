"""All that a run of `course grade` leaves for people, in a form that two runs can be compared in."""

from pathlib import Path

from nbgrader.api import Gradebook

from course.gradebook.book import Book
from course.paths import read

_FILES = ("marks.csv", "marks/*", "reports/*/*", "autograded/*/*/*")


def outcome(folder: Path, week: int) -> dict[str, str]:
    """Return the text of every file under its name, and every row of points and comments of the gradebook."""
    paths = sorted(path for pattern in _FILES for path in folder.glob(pattern) if path.is_file())
    found = {path.relative_to(folder).as_posix(): read(path) for path in paths}
    with Gradebook(f"sqlite:///{(folder / 'gradebook.db').as_posix()}") as book:
        for submission in book.assignment_submissions(Book(folder, week).assignment):
            for notebook in submission.notebooks:
                name = f"gradebook: {submission.student.id}, {notebook.name}"
                points = sorted(f"{g.name}: {g.auto_score}, {g.manual_score}, {g.needs_manual_grade}"
                                for g in notebook.grades)  # fmt: skip
                comments = sorted(f"{c.name}: {c.auto_comment}, {c.manual_comment}" for c in notebook.comments)
                found[name] = "\n".join(points + comments)
    return found


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Return the names under which two outcomes are not the same, byte for byte."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
