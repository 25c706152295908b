"""The command `course grade`."""

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ..errors import CourseError
from ..paths import ROOT
from .console import say

if TYPE_CHECKING:
    from ..gradebook.cluster import Cluster
    from ..judge.judge import Judge

app = typer.Typer()


@app.command()
def grade(
    week: Annotated[int, typer.Argument(help="The week, 4.")],
    submissions: Annotated[
        list[Path] | None, typer.Argument(help="Folders, archives of Moodle or Canvas, notebooks; read, never changed.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write all marks into this table.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Write marks that differ from those that stand, too.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Answers at once; one a processor if left out.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the inputs; the week's own if left out.")] = None,
    to_mark: Annotated[
        Path | None, typer.Option(help="Write the answers in words beside the mark scheme into this table.")
    ] = None,
    marks: Annotated[Path | None, typer.Option(help="Take the marks in such a table.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Of the gradebook; grading/ if left out.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Of a Dask cluster whose workers grade, tcp://HOST:8786; else this machine does.")
    ] = None,
) -> None:
    """Grade a class: marks into nbgrader's gradebook and a table, feedback into a file for each student.

    A run that was broken off goes on where it was; what has been graded is not graded again.
    """
    if not submissions and marks is None:
        raise CourseError("name what was handed in: course grade WEEK SUBMISSIONS… (or --marks FILE)")
    where = ROOT / "grading" if folder is None else folder
    try:
        if submissions:
            _grade(week, submissions, csv, yes, jobs, seed, to_mark, where, scheduler)
        if marks is not None:
            from ..gradebook.grade import take_marks

            say.print(f"{take_marks(week, marks, csv, where)} marks taken from {marks}")
    except BrokenPipeError:  # whoever read the output has gone
        raise
    except OSError as error:  # a full disk, a folder that is closed to writing
        raise CourseError(f"{error.filename or where} cannot be written: {error.strerror}; run this again") from None


def _grade(
    week: int,
    paths: list[Path],
    csv: Path | None,
    yes: bool,
    jobs: int | None,
    seed: int | None,
    to_mark: Path | None,
    folder: Path,
    scheduler: str | None,
) -> None:
    from tqdm.auto import tqdm

    from ..gradebook.grade import grade, require
    from ..gradebook.summary import show

    require(week, paths, [csv, to_mark])  # before a server is started
    judging, at_once = _judging(jobs, scheduler)
    say.print(escape(judging.protection))
    with judging as judge, tqdm(unit="student", desc=f"week {week}") as bar:
        report = grade(
            week,
            paths,
            csv,
            judge,
            at_once,
            folder,
            seed,
            yes,
            to_mark,
            begin=lambda number: bar.reset(number),
            tell=lambda submission: bar.update(),
        )
    show(report, lambda line: say.print(escape(line)))
    if csv is not None:
        say.print(f"marks: {csv}")
    if to_mark is not None:
        say.print(
            f"to mark: {report.to_mark} answers in words, in {to_mark}; course grade {week} --marks FILE takes them"
        )
    say.print(f"feedback: {folder / 'reports'}; gradebook: {folder / 'gradebook.db'}, for nbgrader's formgrader")
    if report.failures or report.unplaced:
        raise typer.Exit(1)


def _judging(jobs: int | None, scheduler: str | None) -> "tuple[Judge | Cluster, int]":
    """The judge that grades, here or on a cluster, and how many answers it is asked about at once."""
    if scheduler is not None:
        from ..gradebook.cluster import Cluster

        cluster = Cluster(scheduler)
        return cluster, jobs or 2 * cluster.threads  # while one is graded, the next is on its way
    from ..judge.judge import Judge

    workers = jobs or os.cpu_count() or 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the same is said in the run's first line
        return Judge(workers=workers), workers
