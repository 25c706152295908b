"""`python -m benchmarks.grading.cluster`: a class on a Dask cluster of one worker process, and of two."""

import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from ..tools import machine, report
from .classes import SEED, WEEK, hand_in, students
from .commands import Taken, course_grade
from .outcome import differences, outcome


def main(
    week: Annotated[int, WEEK] = 6,
    n: Annotated[int, typer.Option("--students", min=1, help="In the class.")] = 40,
    seed: Annotated[int, SEED] = 1,
    results: Annotated[Path, typer.Option(help="Where the JSON goes.")] = report.RESULTS,
) -> None:
    """Grade a class with one worker and with two, and see that the marks are those of this machine's own judge."""
    about, figures, rows = machine.describe(threads=False), dict[str, Any](), []
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        for student in students(week, n, seed):
            hand_in(student, top / "class")
        course_grade(week, top / "class", top / "here")
        expected = outcome(top / "here", week)
        for workers in (1, 2):
            taken = on_workers(workers, week, top / "class", top / str(workers))
            differing = differences(expected, outcome(top / str(workers), week))
            figures[str(workers)] = {"wall": taken.wall, "differ": differing}
            rows.append([f"{workers} workers", f"{taken.wall:.1f}", str(len(differing))])
    figures["ratio"] = figures["1"]["wall"] / figures["2"]["wall"]
    rows.append(["1 / 2", f"{figures['ratio']:.2f}", ""])
    head = [f"week {week}, {n} submissions", "seconds", "files and records that differ from a run here"]
    report.show("A class on a Dask cluster", [machine.one_line(about)], head, rows)
    report.save("grading_cluster", {"machine": about, "week": week, "students": n, **figures}, results)


def on_workers(workers: int, week: int, submitted: Path, folder: Path) -> Taken:
    """Grade on a cluster of so many processes of one thread, all on this machine."""
    from distributed import LocalCluster

    os.environ["OMP_NUM_THREADS"] = "1"
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        return course_grade(week, submitted, folder, "--scheduler", cluster.scheduler_address)


if __name__ == "__main__":
    typer.run(main)
