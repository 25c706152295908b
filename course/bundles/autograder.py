"""What Gradescope's container runs for each submission: read it, have the judge test it, write results.json.

    python -m course.bundles.autograder WEEK FOLDER

FOLDER is laid out as /autograder: the student's files in submission/, the results to go to results/results.json.
"""

import json
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import CourseError
from ..gradebook.grading import Graded, Judging, graded
from ..gradebook.store import Results
from ..intake.handed import files_of
from ..intake.reading import read_submission
from ..intake.submission import Handed, Submission
from ..intake.whose import placed
from ..judge.judge import Judge
from ..judge.marks import PASSED, SUSPICIOUS
from ..paths import write
from ..registry import Exercise, registry

_NOBODY = "student"  # Gradescope knows whose it is


def main(week: int, folder: Path) -> None:
    """Grade FOLDER/submission into FOLDER/results/results.json; a failure of ours is said there, too."""
    try:
        found = grade(week, folder / "submission")
    except Exception as error:  # Gradescope shows nothing of a program that ends without results
        said = str(error) if isinstance(error, CourseError) else traceback.format_exc()
        found = {
            "score": 0,
            "output": f"The autograder has failed, which is not your fault. Tell your instructor:\n{said}",
        }
    write(folder / "results" / "results.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def grade(week: int, folder: Path, judge: Judging | None = None) -> dict[str, Any]:
    """Return Gradescope's results for one student's folder: a test for each exercise of the week, points, output.

    Args:
        judge: who tests the answers; None: one is started, and ended.

    Raises:
        CourseError: no judge can be started.
    """
    exercises = [exercise for exercise in registry() if exercise.week == week]
    submission, notes = _read(week, folder)
    with tempfile.TemporaryDirectory() as kept:
        results = Results(Path(kept) / "results.jsonl")
        seed = results.use_seed(None)
        if judge is not None:
            (one,) = graded([submission], exercises, judge, results, seed)
        else:
            with Judge(workers=1) as judge:
                (one,) = graded([submission], exercises, judge, results, seed)
    return _results(one, exercises, seed, [*submission.notes, *notes])


def _read(week: int, folder: Path) -> tuple[Submission, list[str]]:
    """The submission, whatever its files are called, and what is odd about it; an empty one if nothing can be read."""
    rooms = {exercise.module.partition(".")[0] for exercise in registry()}
    files = tuple(replace(each, student=_NOBODY, number="") for each in placed(files_of(folder), folder, rooms))
    if not files:
        return Submission(_NOBODY, week, folder.name), ["nothing was handed in"]
    submission, left = read_submission(Handed(_NOBODY, files), week)
    return submission or Submission(_NOBODY, week, folder.name), [str(each) for each in left]


def _results(one: Graded, exercises: Sequence[Exercise], seed: int, notes: Sequence[str]) -> dict[str, Any]:
    said = [f"Inputs of seed {seed}: check(…, seed={seed}) repeats them.", *dict.fromkeys(notes)]
    return {
        "tests": [_test(exercise, one) for exercise in exercises],
        "output": "\n".join(said),
        "visibility": "visible",
    }


def _test(exercise: Exercise, one: Graded) -> Mapping[str, Any]:
    test = {"number": exercise.number, "name": exercise.name, "max_score": exercise.points}
    mark = one.marks.get(exercise.number)
    if mark is None:
        return test | {"score": 0, "status": "failed", "output": f"not graded: {one.failures[exercise.number]}"}
    tags = {"tags": [SUSPICIOUS]} if mark.state == SUSPICIOUS else {}
    status = "passed" if mark.state == PASSED else "failed"
    return test | {"score": mark.points, "status": status, "output": mark.feedback} | tags


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
