"""A judge in this process, for tests of what stands around it."""

import tempfile
import threading
from pathlib import Path

from course.grading.implementation import chosen
from course.grading.outcomes import earned
from course.grading.runner import run_exercises
from course.judge.marks import FAILED, PARTIAL, PASSED, mark
from course.paths import write


class HereJudge:
    """Grades as the judge does, without its walls."""

    def __init__(self):
        self.asked, self._turn = [], threading.Lock()

    def grade(self, files, exercises, seed):
        with self._turn, tempfile.TemporaryDirectory() as folder:
            self.asked += [exercise.number for exercise in exercises]
            for name, text in files.items():
                write(Path(folder) / name, text)
            return [self._mark(exercise, folder, seed) for exercise in exercises]

    def _mark(self, exercise, folder, seed):
        run = run_exercises([exercise], chosen(folder), 60, seed=seed)
        points = earned(exercise, run.outcomes)
        said = "\n".join(outcome.message for outcome in run.outcomes if not outcome.passed)
        return mark(
            exercise, seed, PASSED if run.passed else PARTIAL if points else FAILED, said or "all passed", points
        )


class QuickJudge:
    """Gives full marks to every answer but those with a word in them, and remembers whom it was asked about."""

    def __init__(self, states=None, fails_at=None):
        self.states, self.fails_at, self.asked = states or {}, fails_at, []

    def grade(self, files, exercises, seed):
        text = "".join(files.values())
        self.asked.append(exercises[0].number)
        if self.fails_at is not None and len(self.asked) == self.fails_at:
            raise RuntimeError("the server is gone")
        for word, (state, share) in self.states.items():
            if word in text:
                return [mark(e, seed, state, f"{e.name}: {word} was found", share * e.points) for e in exercises]
        return [mark(e, seed, PASSED, f"{e.name}: all tests passed", e.points) for e in exercises]
