"""`course grade` and `nbgrader autograde` over a folder of submissions, and what each takes of the processor."""

import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from course.gradebook.book import Book
from course.judge.isolation import adopt_orphans
from course.paths import ROOT


@dataclass(frozen=True)
class Taken:
    """What a command took.

    Attributes:
        cpu: seconds of all its processes, in user and system mode.
        wall: seconds.
        code: its exit code.
        said: all it put out.
    """

    cpu: float
    wall: float
    code: int
    said: str


def run(line: list[str]) -> Taken:
    """Run a command of this Python in the course's folder; Linux and macOS only, where children can be counted."""
    if sys.platform == "linux":
        adopt_orphans()  # bubblewrap ends before the process that it has put into its box, whose seconds would be lost
    others = {child.pid for child in psutil.Process().children()}  # a cluster's workers, say, which go on
    before, start = _children(), time.perf_counter()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *line], cwd=ROOT, env=environment, text=True, encoding="utf-8", stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    for child in psutil.Process().children():
        if child.pid not in others:
            with suppress(ChildProcessError):
                os.waitpid(child.pid, 0)
    return Taken(_children() - before, time.perf_counter() - start, done.returncode, done.stdout)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def course_line(week: int, submitted: Path, folder: Path, *options: str) -> list[str]:
    """Return the command that grades a week into a folder of its own, with the table beside the gradebook."""
    places = ["--folder", str(folder), "--csv", str(folder / "marks.csv")]
    return ["course", "grade", str(week), str(submitted), *places, "--seed", "1", *options]


def course_grade(week: int, submitted: Path, folder: Path, *options: str) -> Taken:
    """Grade a week; raise RuntimeError where the command fails."""
    taken = run(course_line(week, submitted, folder, *options))
    if taken.code:
        raise RuntimeError(f"course grade ended with {taken.code}: {taken.said[-2000:]}")
    return taken


def nbgrader_autograde(week: int, submitted: Path, folder: Path) -> tuple[Taken, int]:
    """Grade a week with plain nbgrader as the course configures it; return also how many submissions it has graded."""
    with Book(folder, week) as book:
        book.register()
        assignment = book.assignment
    places = {
        "db_url": f"sqlite:///{(folder / 'gradebook.db').as_posix()}",
        "submitted_directory": str(submitted),
        "autograded_directory": str(folder / "autograded"),
    }
    options = [f"--CourseDirectory.{name}={place}" for name, place in places.items()]
    taken = run(["nbgrader", "autograde", assignment, "--create", *options])
    graded = {path.parent for path in (folder / "autograded").glob(f"*/{assignment}/*.ipynb")}
    if not graded:
        raise RuntimeError(f"nbgrader autograde graded nothing: {taken.said[-2000:]}")
    return taken, len(graded)
