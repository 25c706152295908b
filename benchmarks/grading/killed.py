"""`python -m benchmarks.grading.killed`: a run ended by SIGKILL half-way and started again, beside a whole one."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from course.paths import ROOT, read

from .classes import SEED, WEEK, hand_in, students
from .commands import course_grade, course_line
from .outcome import differences, outcome


def main(
    week: Annotated[int, WEEK] = 6,
    n: Annotated[int, typer.Option("--students", min=2, help="In the class.")] = 200,
    seed: Annotated[int, SEED] = 1,
) -> None:
    """Compare what both leave: table, marks, feedback, graded notebooks, gradebook; end with 1 where any differs."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        for student in students(week, n, seed):
            hand_in(student, top / "class")
        course_grade(week, top / "class", top / "whole")
        asked = kept(top / "whole", week)
        print(f"{n} submissions, {asked} answers asked about; killed with ", end="", flush=True)
        print(f"{kill_half_way(week, top / 'class', top / 'killed', asked // 2)} of them kept")
        course_grade(week, top / "class", top / "killed")
        whole, again = outcome(top / "whole", week), outcome(top / "killed", week)
    found = differences(whole, again)
    print("\n".join([*(f"differs: {name}" for name in found), f"{len(whole)} files and records, {len(found)} differ"]))
    raise typer.Exit(bool(found))


def kill_half_way(week: int, submitted: Path, folder: Path, most: int) -> int:
    """Grade until so many answers have their marks kept, and end the process by SIGKILL; return how many there are."""
    process = subprocess.Popen(
        [sys.executable, "-m", *course_line(week, submitted, folder)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while kept(folder, week) < most:
        if process.poll() is not None:
            raise RuntimeError(f"the run ended by itself, with {process.returncode}")
        time.sleep(0.2)
    process.kill()
    process.wait()
    return kept(folder, week)


def kept(folder: Path, week: int) -> int:
    """Return how many answers have a mark in the results of a week."""
    path = folder / "results" / f"week{week:02}.jsonl"
    return read(path).count('"key"') if path.exists() else 0


if __name__ == "__main__":
    typer.run(main)
