"""Answers as a class hands them in: the code of a cell in its notebook, taken out as `course collect` does."""

import json
from pathlib import Path

from course.audit.cases import Right
from course.paths import ROOT, read
from course.registry import Exercise
from course.work.collect import gather


def files_of(exercise: Exercise, answer: Right, folder: Path) -> dict[str, str]:
    """Return the files that an answer makes, standing in the released notebook in place of the exercise's cell."""
    notebook = json.loads(read(ROOT / exercise.notebook))
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == exercise.slug:
            cell["source"] = answer.text
    path = folder / Path(exercise.notebook).name
    path.write_text(json.dumps(notebook), encoding="utf-8")
    gather([path], folder / "answers")
    return {exercise.file: read(folder / "answers" / exercise.file)}
