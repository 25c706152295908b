"""A file for each student: what was found of every exercise, in the words of `check`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..intake.submission import Submission
from ..judge.marks import SUSPICIOUS, Mark
from ..paths import write
from ..registry import Exercise
from .names import identity


def write_feedback(
    folder: Path, week: int, submission: Submission, exercises: Sequence[Exercise], marks: Mapping[str, Mark]
) -> Path:
    """Write a student's file of a week, FOLDER/STUDENT/week04.md; return its path."""
    points = sum(mark.points for mark in marks.values())
    most = sum(exercise.points for exercise in exercises)
    lines = [f"# Week {week}", "", f"{submission.student}: {points:g} of {most} points for what tests can tell.", ""]
    if submission.notes:
        lines += ["How your work was read:", "", *(f"- {' '.join(note.split())}" for note in submission.notes), ""]
    for exercise in exercises:
        lines += _of_one(exercise, marks.get(exercise.number))
    path = folder / identity(submission.student) / f"week{week:02}.md"
    write(path, "\n".join(lines).encode("utf-8", "replace").decode("utf-8"))
    return path


def _of_one(exercise: Exercise, mark: Mark | None) -> list[str]:
    title = f"## {exercise.number} {exercise.name}"
    if mark is None:
        return [f"{title}: not graded yet", ""]
    said = "your teacher looks at this answer" if mark.state == SUSPICIOUS else mark.feedback
    text = [f"    {line}".rstrip() for line in said.splitlines()]  # shown as it is, whatever it has in it
    stamp = f"{mark.state}; inputs of seed {mark.seed}; tests and lesson {mark.version}"
    return [f"{title}: {mark.points:g} of {mark.max_points}", "", *text, "", stamp, ""]
