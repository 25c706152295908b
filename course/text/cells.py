"""Which cell of a lesson each cell of a student's notebook is, even where its metadata or its id is lost.

A lesson's cell is known by a key: the name that nbgrader grades it by, or else its id. The build makes the id of a
plain cell from its content, so a copy tells by itself whether it is still as the lesson had it.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from .answers import definitions, functions, is_stub

Cell = dict[str, Any]
EMPTY = ("", "YOUR ANSWER HERE")
_PLAIN = re.compile(r"cell-([0-9a-f]{12})(-\d+)?")


def grade_id(cell: Cell) -> str | None:
    """Return the name that nbgrader knows a cell by."""
    nbgrader = cell["metadata"].get("nbgrader")
    name = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    return name if isinstance(name, str) else None


def key_of(cell: Cell) -> str | None:
    """Return the key that a cell carries; None for one that cannot be a lesson's."""
    name = grade_id(cell) or cell.get("id")
    return name if isinstance(name, str) else None


def is_answer_cell(cell: Cell) -> bool:
    """Return whether a lesson's cell is one to write an answer into."""
    nbgrader = cell["metadata"].get("nbgrader")
    return isinstance(nbgrader, dict) and bool(nbgrader.get("solution"))


def digest(cell: Cell) -> str:
    """Return what two cells share that say the same; the build makes ids of it."""
    return hashlib.sha256(f"{cell.get('cell_type')}\n{cell['source']}".encode()).hexdigest()[:12]


def is_answered(cell: Cell, lesson: Cell | None = None) -> bool:
    """Return whether an answer cell holds more than the line that says that nobody has written it.

    Args:
        lesson: the lesson's own cell, where it is known.
    """
    source = cell["source"].strip()
    if source in EMPTY or (lesson is not None and source == lesson["source"].strip()):
        return False
    if cell.get("cell_type") != "code":
        return True
    written = _functions(cell)
    # Code without a function is at least something: half of one, or a line that is not Python.
    return not written or any(not is_stub(node) for node in written.values())


def _functions(cell: Cell) -> dict:
    try:
        return functions(cell["source"])
    except Exception:
        return {}


@dataclass
class Original:
    """A lesson as a copy began: its cells, or what the copy itself still tells where they are not known."""

    cells: dict[str, Cell] | None

    def has(self, key: str, cell: Cell, lesson: Cell) -> bool:
        """Return whether a cell is as the lesson had it; `lesson` is any version of the lesson's own cell."""
        source = self.source(key)
        if source is not None:
            return cell["source"].strip() == source.strip()
        plain = _PLAIN.fullmatch(key)
        if plain:
            return plain[1] == digest(cell)
        return not (is_answer_cell(lesson) and is_answered(cell))

    def source(self, key: str) -> str | None:
        """Return a cell's text as the lesson had it; None where it is not known."""
        return self.cells[key]["source"] if self.cells is not None and key in self.cells else None


def by_key(cells: list[Cell]) -> dict[str, Cell]:
    """Return a lesson's cells by their keys."""
    return {key: cell for cell in cells if (key := key_of(cell)) is not None}


def recognise(mine: list[Cell], lessons: list[dict[str, Cell]]) -> list[tuple[str | None, Cell]]:
    """Return a student's cells, each with the key of the lesson's cell that it is; None for one of the student's own.

    By what the cell carries; else by its content; else by what it defines; else, for an answer in words, by its place
    after the question. Of several copies of one cell the answered one counts, the others are the student's own.

    Args:
        lessons: versions of the lesson, the present one first, their cells by key.
    """
    known = {key: cell for lesson in reversed(lessons) for key, cell in lesson.items()}
    keys: list[str | None] = [None] * len(mine)
    _by_what_they_carry(mine, known, keys)
    taken = {key for key in keys if key}
    contents = {digest(cell): key for lesson in lessons for key, cell in lesson.items() if key not in taken}
    for index, cell in enumerate(mine):
        if keys[index] is None and digest(cell) in contents:
            keys[index] = contents.pop(digest(cell))
    _by_definition(mine, known, keys)
    _by_place(mine, known, keys)
    return list(zip(keys, mine, strict=True))


def _by_what_they_carry(mine: list[Cell], known: dict[str, Cell], keys: list[str | None]) -> None:
    candidates: dict[str, list[int]] = {}
    for index, cell in enumerate(mine):
        carried = grade_id(cell) or (cell.get("id") if cell.get("id") in known else None)
        identity = cell.get("id")
        if carried is None and isinstance(identity, str) and _PLAIN.fullmatch(identity):
            carried = identity  # a lesson's, of a version that is not at hand
        if carried is not None:
            candidates.setdefault(carried, []).append(index)
    for key, indexes in candidates.items():
        best = max(indexes, key=lambda i: (_rank(mine[i], known.get(key)), mine[i].get("id") == key, -i))
        keys[best] = key


def _rank(cell: Cell, lesson: Cell | None) -> int:
    """How much a copy of an answer cell is the answer: it defines what is asked, it is written at all."""
    if lesson is None or not is_answer_cell(lesson) or not is_answered(cell, lesson):
        return 0
    return 2 if definitions(lesson["source"]) <= definitions(cell["source"]) else 1


def _by_definition(mine: list[Cell], known: dict[str, Cell], keys: list[str | None]) -> None:
    """The last cell that defines what a missing answer cell defines."""
    for key, lesson in known.items():
        names = definitions(lesson["source"]) if is_answer_cell(lesson) and lesson["cell_type"] == "code" else set()
        if not names or key in keys:
            continue
        for index in reversed(range(len(mine))):
            if (
                keys[index] is None
                and mine[index].get("cell_type") == "code"
                and names <= definitions(mine[index]["source"])
            ):
                keys[index] = key
                break


def _by_place(mine: list[Cell], known: dict[str, Cell], keys: list[str | None]) -> None:
    """The text right after the question of a missing answer in words."""
    for key, lesson in known.items():
        if is_answer_cell(lesson) and lesson["cell_type"] == "markdown" and key not in keys:
            question = f"{key}-text"
            index = keys.index(question) + 1 if question in keys else len(mine)
            if index < len(mine) and keys[index] is None and mine[index].get("cell_type") == "markdown":
                keys[index] = key
