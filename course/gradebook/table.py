"""Marks as a table: one row a student and exercise, every field quoted, UTF-8, no formula in any of them."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..paths import write
from .names import cell

COLUMNS = ("student", "week", "exercise", "points", "max_points", "state", "version")


@dataclass(frozen=True)
class Row:
    """One line: `points` is None where nobody has marked an answer yet."""

    student: str
    week: int
    exercise: str
    points: float | None
    max_points: float
    state: str
    version: str = ""


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Write the table whole."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        points = "" if row.points is None else f"{row.points:g}"
        fields = (
            cell(row.student),
            row.week,
            cell(row.exercise),
            points,
            f"{row.max_points:g}",
            row.state,
            row.version,
        )
        writer.writerow(fields)
    write(path, text.getvalue())
