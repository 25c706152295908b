"""The course's first page: `solutions/start.py` with the table of weeks put in."""

from dataclasses import replace
from pathlib import Path

import nbformat

from ..errors import CourseError
from .lesson import Cell, ExerciseCell, Lesson, WrittenCell
from .notebook import METADATA, give_ids, plain_cell
from .weeks import WEEKS
from .words import prose

_PLACE = "{{weeks}}"
SELF_TEST = "self_test.py"
WORDS_A_MINUTE = 150  # at which a technical text is read with understanding, slower than a novel


def start_page(root: Path, found: list[Lesson]):
    """Return the start notebook: the page's own cells, `{{weeks}}` replaced by a table of the ten weeks."""
    lesson = Lesson(root / "solutions" / "start.py")
    table = weeks_table(found)
    return page([plain_cell(_with_table(_no_task(cell, lesson), table)).source for cell in lesson.cells])


def self_test_page(root: Path):
    """Return the notebook of week 0, `solutions/self_test.py`, as it is: nothing in it is graded."""
    lesson = Lesson(root / "solutions" / SELF_TEST)
    cells = [plain_cell(_no_task(cell, lesson)) for cell in lesson.cells]
    give_ids(cells)
    return nbformat.v4.new_notebook(cells=cells, metadata=METADATA)


def page(texts: list[str]):
    """Return a notebook of text alone."""
    cells = [nbformat.v4.new_markdown_cell(text) for text in texts]
    give_ids(cells)
    return nbformat.v4.new_notebook(cells=cells, metadata=METADATA)


def _no_task(cell: Cell | ExerciseCell | WrittenCell, lesson: Lesson) -> Cell:
    if not isinstance(cell, Cell):
        raise CourseError(
            f"solutions/{lesson.path.name} asks for {cell.name}: exercises belong into the lesson of a week"
        )
    return cell


def _with_table(cell: Cell, table: str) -> Cell:
    return replace(cell, text=cell.text.replace(_PLACE, table))


def weeks_table(found: list[Lesson]) -> str:
    """Return Markdown: a row per week, linked where its lesson exists."""
    by_week = {week: [lesson for lesson in found if lesson.week == week] for week in WEEKS}
    rows = [row for week, title in WEEKS.items() for row in _rows(week, title, by_week[week])]
    return "\n".join(["| week | | exercises | points | hours |", "|---:|---|---:|---:|---:|", *rows])


def _rows(week: int, title: str, found: list[Lesson]) -> list[str]:
    if not found:
        return [f"| {week} | {title} (not yet) | | | |"]
    titles = [title] if len(found) == 1 else [lesson.title.partition(" · ")[2] or lesson.title for lesson in found]
    return [_row(week, its_title, lesson) for its_title, lesson in zip(titles, found, strict=True)]


def _row(week: int, title: str, lesson: Lesson) -> str:
    tasks = [task for _, task in lesson.tasks]
    code = sum(isinstance(task, ExerciseCell) for task in tasks)
    count = f"{code}" if code == len(tasks) else f"{code} and {len(tasks) - code} in words"
    points, minutes = (sum(task.fields[name] for task in tasks) for name in ("points", "minutes"))
    minutes += len(" ".join(prose(lesson)).split()) / WORDS_A_MINUTE
    return f"| {week} | [{title}]({lesson.folder}/{lesson.name}.ipynb) | {count} | {points} | {minutes / 60:.1f} |"
