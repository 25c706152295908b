"""Which lesson each notebook of a student is, and which of several copies counts."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import CourseError
from ..paths import ROOT
from ..registry import Exercise, registry
from ..text.answers import is_stub
from ..text.cells import Cell, by_key, is_answer_cell, is_answered, key_of
from ..text.files import load, parsed
from ..text.source import Function
from ..work.collect import code_of
from ..work.taking import Code
from .whose import Placed

MOST_VALUES = 20_000_000  # in a notebook's JSON: they take about a gigabyte once they are read


class NothingOfOurs(CourseError):
    """A notebook without anything of this course in it."""


@dataclass(frozen=True)
class Notebook:
    """A student's notebook.

    Attributes:
        placed: its file.
        cells: without their outputs.
        code: the student's code in it.
        lesson: the released notebook that it is, "notebooks/…", by its cells, its functions or its name.
        shares: how much of each released notebook is in it.
        n_written: how many answers of its lesson are written, in code and in words.
    """

    placed: Placed
    cells: list[Cell]
    code: Code
    lesson: str
    shares: dict[str, int]
    n_written: int


def read_notebook(each: Placed, root: Path = ROOT) -> Notebook:
    """Return a student's notebook; raise CourseError, to follow the file's name, where it is none of the course's."""
    data = each.file.load()
    if max(4 * (data.count(b"[") + data.count(b"{")), data.count(b",")) > MOST_VALUES:
        raise CourseError(f"holds more than {MOST_VALUES:,} values: clear its outputs, and hand it in again")
    content = _script(data) if is_script(each.file.name) else parsed(data)
    del data
    cells = [{name: cell.get(name) for name in ("cell_type", "source", "metadata", "id")} for cell in content["cells"]]
    exercises = registry(root)
    lessons = {name: released(root, name) for name in dict.fromkeys(exercise.notebook for exercise in exercises)}
    slugs = {exercise.slug for exercise in exercises}
    code = code_of(cells, {key: cell for lesson in lessons.values() for key, cell in lesson.items()}, slugs)
    shares = _shares(each.file.name, cells, code, lessons, exercises)
    lesson = max(shares, key=lambda name: shares[name])
    if not shares[lesson]:
        raise NothingOfOurs("has nothing of this course in it")
    return Notebook(each, cells, code, lesson, shares, _n_written(cells, code, lessons[lesson], lesson, exercises))


def is_script(name: str, root: Path = ROOT) -> bool:
    """Return whether a file's name is a lesson's that Jupyter has saved as Python ("Save and Export Notebook As")."""
    return name.lower().endswith(".py") and any(_is_named(name, each.notebook) for each in registry(root))


def _script(data: bytes) -> dict[str, list[Cell]]:
    """A notebook saved as Python, as one cell of code; its answers in words are comments, and not found."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return {"cells": [{"cell_type": "code", "source": text, "metadata": {}, "id": None}]}


@cache
def released(root: Path, name: str) -> dict[str, Cell]:
    """Return the cells of a released notebook by their keys."""
    path = root / name
    return by_key(load(path)["cells"]) if path.is_file() else {}


def _shares(
    name: str, cells: Sequence[Cell], code: Code, lessons: dict[str, dict[str, Cell]], exercises: Sequence[Exercise]
) -> dict[str, int]:
    """How many cells and functions of each lesson there are; its name decides only where nothing else does."""
    keys = {key for cell in cells if (key := key_of(cell))}
    functions = _functions(code) | {each for names, _ in code.broken for each in names}
    shares = {}
    for lesson, known in lessons.items():
        asked = {target for e in exercises if e.notebook == lesson for target in e.targets}
        answers = {key for key, cell in known.items() if is_answer_cell(cell)}
        shares[lesson] = 2 * (3 * len(answers & keys) + 2 * len(asked & functions)) + _is_named(name, lesson)
    return shares


def _is_named(name: str, lesson: str) -> bool:
    stem = name.lower().partition(".ipynb")[0].replace("-", "_").replace(" ", "_")
    return Path(lesson).stem.lower() in stem


def _functions(code: Code, written: bool = False) -> set[str]:
    found = set()
    for piece in code.pieces:
        if isinstance(piece.node, Function) and not (written and is_stub(piece.node)):
            found.add(piece.node.name)
        owner, members = (piece.node.name, piece.node.body) if isinstance(piece.node, ast.ClassDef) else ("", [])
        for child in members:
            if isinstance(child, Function) and not (written and is_stub(child)):
                found.add(f"{owner}.{child.name}")
        found |= {name for name in piece.statement.names if not isinstance(piece.node, Function)}
    return found


def _n_written(
    cells: Sequence[Cell], code: Code, known: dict[str, Cell], lesson: str, exercises: Sequence[Exercise]
) -> int:
    asked = {target for exercise in exercises if exercise.notebook == lesson for target in exercise.targets}
    words = {key for key, cell in known.items() if is_answer_cell(cell) and cell["cell_type"] == "markdown"}
    answered = {key for cell in cells if (key := key_of(cell)) in words and is_answered(cell, known[key])}
    return len(_functions(code, written=True) & asked) + len(answered)


def that_count(notebooks: Sequence[Notebook], week: int) -> tuple[list[Notebook], list[str]]:
    """Return one notebook for each lesson of a week, and what became of the others.

    Of several copies the one with the most answers counts, of these the one saved last.
    """
    in_week = {exercise.notebook for exercise in registry() if exercise.week == week}
    best: dict[str, Notebook] = {}
    notes = []
    for each in notebooks:
        if not any(each.shares[name] for name in in_week):
            if not _is_named(each.placed.file.name, each.lesson):  # a folder of all weeks is nothing odd
                number = Path(each.lesson).stem[4:6].lstrip("0")
                notes.append(f"{each.placed.file.name} is of week {number}, and is not read for this one")
            continue
        lesson = each.lesson if each.lesson in in_week else max(in_week, key=lambda name: each.shares[name])
        other = best.get(lesson)
        best[lesson] = each if other is None else max(other, each, key=_rank)
        if other is not None and _sources(other) != _sources(each):
            left = each if best[lesson] is other else other
            chosen = best[lesson]
            notes.append(
                f"{'/'.join(chosen.placed.inside)} counts, with {chosen.n_written} answers, "
                f"and not {'/'.join(left.placed.inside)}, with {left.n_written}"
            )
    return [best[name] for name in sorted(best)], notes


def _rank(notebook: Notebook) -> tuple[int, float, int]:
    return notebook.n_written, notebook.placed.file.saved, len(notebook.placed.file.name)


def _sources(notebook: Notebook) -> list[str]:
    return [cell["source"] for cell in notebook.cells]
