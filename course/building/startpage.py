"""The course's first page: `solutions/start.py` with the table of weeks put in."""

from dataclasses import replace
from pathlib import Path

import nbformat

from ..errors import CourseError
from .lesson import Cell, ExerciseCell, Lesson, WrittenCell
from .notebook import METADATA, give_ids, plain_cell
from .weeks import WEEKS

_PLACE = "{{weeks}}"


def start_page(root: Path, found: list[Lesson]):
    """Return the start notebook: the page's own cells, `{{weeks}}` replaced by a table of the ten weeks."""
    page = Lesson(root / "solutions" / "start.py")
    table = weeks_table(found)
    cells = [plain_cell(_with_table(cell, table)) for cell in page.cells]
    give_ids(cells)
    return nbformat.v4.new_notebook(cells=cells, metadata=METADATA)


def _with_table(cell: Cell | ExerciseCell | WrittenCell, table: str) -> Cell:
    if not isinstance(cell, Cell):
        raise CourseError(f"solutions/start.py asks for {cell.name}: exercises belong into the lesson of a week")
    return replace(cell, text=cell.text.replace(_PLACE, table))


def weeks_table(found: list[Lesson]) -> str:
    """Return Markdown: a row per week, linked where its lesson exists."""
    by_week = {lesson.week: lesson for lesson in found}
    rows = [_row(week, title, by_week.get(week)) for week, title in WEEKS.items()]
    return "\n".join(["| week | | exercises | points | hours |", "|---:|---|---:|---:|---:|", *rows])


def _row(week: int, title: str, lesson: Lesson | None) -> str:
    if lesson is None:
        return f"| {week} | {title} (not yet) | | | |"
    tasks = [task for _, task in lesson.tasks]
    code = sum(isinstance(task, ExerciseCell) for task in tasks)
    count = f"{code}" if code == len(tasks) else f"{code} and {len(tasks) - code} in words"
    points, hours = (sum(task.fields[name] for task in tasks) for name in ("points", "minutes"))
    return f"| {week} | [{title}]({lesson.name}/{lesson.name}.ipynb) | {count} | {points} | {hours / 60:.1f} |"
