"""`python -m benchmarks.grading`."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from ..tools import machine, report
from .classes import SEED, Student, hand_in, students
from .commands import course_grade, nbgrader_autograde

HEAD = ["", "class", "CPU s each", "of these", "CPU s each", "nbgrader graded", "CPU s each", "ratio", "by the class's"]


def main(
    week: Annotated[list[int] | None, typer.Option(help="4 and 6 if left out.")] = None,
    n: Annotated[int, typer.Option("--students", min=1, help="In a week's class.")] = 200,
    beside: Annotated[int, typer.Option(min=1, help="How many of them nbgrader grades too.")] = 20,
    seed: Annotated[int, SEED] = 1,
    results: Annotated[Path, typer.Option(help="Where the JSON goes.")] = report.RESULTS,
) -> None:
    """Grade a class of made-up students with `course grade`, and some of them with `nbgrader autograde` too.

    Seconds are the processor's, of all processes, the start of the servers included.
    """
    about = machine.describe(threads=False)
    figures = {f"week {number}": of_week(number, n, beside, seed) for number in week or (4, 6)}
    rows = [[name, *(f"{each:.2f}" if isinstance(each, float) else str(each) for each in found.values())]
            for name, found in figures.items()]  # fmt: skip
    report.show("A class graded", [machine.one_line(about)], HEAD, rows)
    report.save("grading", {"machine": about, "seed": seed, "weeks": figures}, results)


def of_week(week: int, n: int, beside: int, seed: int) -> dict[str, Any]:
    """Return a week's figures: the whole class, then the same few by both."""
    everybody = students(week, n, seed)
    few = [each for each in everybody if each.plain_name][:: max(1, n // (2 * beside))][:beside]
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        whole = course_grade(week, _handed(everybody, top / "class"), top / "all")
        submitted = _handed(few, top / "few")
        ours = course_grade(week, submitted, top / "ours")
        theirs, graded = nbgrader_autograde(week, submitted, top / "theirs")
    return {
        "submissions": n,
        "each": whole.cpu / n,
        "beside": len(few),
        "each beside": ours.cpu / len(few),
        "graded by nbgrader": graded,
        "nbgrader": theirs.cpu / len(few),
        "ratio": theirs.cpu / ours.cpu,
        "ratio by the class's": theirs.cpu / len(few) / (whole.cpu / n),
    }


def _handed(some: list[Student], folder: Path) -> Path:
    for student in some:
        hand_in(student, folder)
    return folder


if __name__ == "__main__":
    typer.run(main)
