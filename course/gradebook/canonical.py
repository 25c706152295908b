"""A graded notebook for nbgrader: the lesson as it was released, with the student's answers and the judge's words."""

import ast
from collections.abc import Mapping
from typing import Any

from ..intake.submission import ANSWERED, Submission
from ..judge.marks import Mark
from ..paths import ROOT, read
from ..registry import Exercise, Question
from ..text.cells import grade_id
from ..text.files import parsed, to_text
from ..text.source import first_line, last_line, tree_of
from ..work.collect import start


def graded_notebook(
    lesson: str,
    submission: Submission,
    marks: Mapping[str, Mark],
    exercises: Mapping[str, Exercise],
    questions: Mapping[str, Question],
) -> str:
    """Return the text of a notebook that formgrader and feedback show.

    Whatever became of the student's cells, every cell that is graded is in it once.

    Args:
        lesson: the released notebook, "notebooks/…".
        exercises: by their cells' names; `questions` likewise.
    """
    notebook = parsed(read(ROOT / lesson))
    for cell in notebook["cells"]:
        name = grade_id(cell) or ""
        exercise = exercises.get(name.removesuffix("-check"))
        if name in questions:
            cell["source"] = submission.written.get(questions[name].number) or cell["source"]
        elif exercise is not None and name == exercise.slug:
            cell["source"] = answer_of(exercise, submission) or cell["source"]
        elif exercise is not None and name.endswith("-check") and exercise.number in marks:
            cell["outputs"] = _outputs(marks[exercise.number])
    return to_text(notebook)


def _outputs(mark: Mark) -> list[dict[str, Any]]:
    """What the check cell would have shown."""
    points = {"output_type": "execute_result", "execution_count": None, "metadata": {}}
    said = {"output_type": "stream", "name": "stdout", "text": mark.feedback + "\n"}
    return [said, points | {"data": {"text/plain": f"{mark.points:g}"}}]


def answer_of(exercise: Exercise, submission: Submission) -> str:
    """Return the student's statements for one exercise, as they are graded; empty where nothing is written."""
    text = submission.answers.get(exercise.number, {}).get(exercise.file, "")
    if not text or submission.states.get(exercise.number) != ANSWERED:
        return ""
    stub = set(_statements(start(exercise.module)))
    return "\n\n\n".join(each for each in _statements(text) if each not in stub)


def _statements(text: str) -> list[str]:
    """The statements of a file, of its classes each member."""
    lines, found = text.split("\n"), []
    for node in tree_of(text).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        found += ["\n".join(lines[first_line(each) - 1 : last_line(each)]) for each in members]
    return found
