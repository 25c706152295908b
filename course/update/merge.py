"""A student's copy of a lesson and the lesson's new version, made one notebook."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from ..errors import CourseError
from ..text.answers import definitions, functions, is_stub
from ..text.cells import Cell, Original, by_key, digest, is_answer_cell, is_answered, key_of, recognise
from .carry import carry


@dataclass
class Leftover:
    """A cell of the student's that the new version has no place for: its key, and the lesson's text it began as."""

    key: str
    cell: Cell
    why: str
    is_answer: bool = False
    base: str | None = None

    @property
    def file(self) -> str:
        """The name of the file that keeps it."""
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.key)
        return f"{name}.py" if self.cell.get("cell_type") == "code" else f"{name}.md"


@dataclass
class Merged:
    """The notebook and what became of the student's part in it.

    Attributes:
        notebook: the new version with the student's part put in.
        answers: keys of the answers put in.
        own: how many cells of the student's own, or of the lesson's that the student had changed, it has.
        look: sentences about what to look at.
        left: what has no place.
    """

    notebook: dict[str, Any]
    answers: list[str] = field(default_factory=list)
    own: int = 0
    look: list[str] = field(default_factory=list)
    left: list[Leftover] = field(default_factory=list)


def merge(mine: dict[str, Any], base: dict[str, Any] | None, new: dict[str, Any]) -> Merged:
    """Return the lesson's new version with the student's answers, own cells and changes in it.

    Args:
        mine: the student's copy.
        base: the lesson that the copy began as; None if that is not known.
        new: the lesson as it is now.

    Raises:
        CourseError: none of the student's cells is of this lesson.
    """
    lesson, was = by_key(new["cells"]), None if base is None else by_key(base["cells"])
    pairs = recognise(mine["cells"], [lesson] if was is None else [lesson, was])
    _require_of_lesson(pairs, lesson, was)
    original, cells = Original(was), {key: _as_is(cell) for key, cell in lesson.items()}
    merged = Merged({**new, "metadata": {**new["metadata"], **_kernel(mine)}})
    for key, cell in pairs:
        if key is None:
            merged.own += 1
        elif key in lesson:
            cells[key] = _merged_cell(key, cell, original, lesson[key], merged)
        elif not original.has(key, cell, (was or {}).get(key, cell)):
            merged.left.append(_leftover(key, cell, was))
    merged.notebook["cells"] = _in_order(pairs, cells, {cell["id"] for cell in new["cells"]})
    return merged


def require_of_lesson(mine: dict[str, Any], lesson: dict[str, Any], base: dict[str, Any] | None) -> None:
    """Raise CourseError if no cell of a notebook is one of a lesson, or of the version that it began as."""
    now, was = by_key(lesson["cells"]), None if base is None else by_key(base["cells"])
    _require_of_lesson(recognise(mine["cells"], [now] if was is None else [now, was]), now, was)


def _require_of_lesson(
    pairs: list[tuple[str | None, Cell]], lesson: dict[str, Cell], was: dict[str, Cell] | None
) -> None:
    # A page without an exercise may have changed altogether since a copy of it was made that nobody has noted.
    is_telling = was is not None or any(is_answer_cell(cell) for cell in lesson.values())
    if is_telling and not any(key in lesson or key in (was or ()) for key, _ in pairs):
        raise CourseError("has no cell of this lesson in it")


def place(left: Leftover, merged: Merged) -> bool:
    """Put an answer that its own notebook has no place for into another, if that asks it and has no answer yet."""
    names = definitions(left.cell["source"]) if left.cell.get("cell_type") == "code" else set()
    for cell in merged.notebook["cells"]:
        if not (left.is_answer and is_answer_cell(cell) and cell["cell_type"] == left.cell.get("cell_type")):
            continue
        same = key_of(cell) == left.key or bool(names & definitions(cell["source"]))
        if same and not is_answered(cell):
            cell["source"] = _answer(key_of(cell) or left.key, left.cell["source"], left.base, cell, merged)
            return True
    return False


def _merged_cell(key: str, mine: Cell, original: Original, new: Cell, merged: Merged) -> Cell:
    """The lesson's cell, with the student's text where that was changed and the outputs where they still belong."""
    old = original.source(key)
    is_new = old is not None and old.strip() != new["source"].strip()
    made = _as_is(new)
    if original.has(key, mine, new) or mine["source"].strip() == new["source"].strip():
        pass
    elif is_answer_cell(new):
        made["source"] = _answer(key, mine["source"], old, new, merged)
    elif is_new or (old is None and digest(new) not in key):
        merged.left.append(Leftover(key, mine, "the lesson has changed this cell as well"))
    else:
        made["source"] = mine["source"]
        merged.own += 1
    if made["cell_type"] == "code" and made["source"].strip() == mine["source"].strip():
        made |= {name: mine[name] for name in ("outputs", "execution_count") if name in mine}
    return made


def _answer(key: str, mine: str, old: str | None, new: Cell, merged: Merged) -> str:
    """The text of an answer cell: the student's, under what the lesson has corrected in its own part."""
    merged.answers.append(key)
    if new["cell_type"] != "code" or (old is not None and old.strip() == new["source"].strip()):
        return mine
    targets = [name for name, node in functions(new["source"]).items() if is_stub(node)]
    try:
        carried = carry(mine, old, {"": new["source"]}, dict.fromkeys(targets, ""), "")
    except (CourseError, SyntaxError, ValueError) as error:
        merged.look.append(f"{key}: put in as it was, because {error}")
        return mine
    merged.look += carried.look
    if carried.lost:
        why = "; ".join(f"{name} {why}" for name, why in carried.lost.items())
        merged.left.append(Leftover(key, {"cell_type": "code", "source": mine}, why))
    return carried.places[""]


def _in_order(pairs: list[tuple[str | None, Cell]], cells: dict[str, Cell], taken: set[str]) -> list[Cell]:
    """The lesson's cells and the student's own, behind the cell that they stood behind, or else before the next."""
    keys, before, after = [key for key, _ in pairs], defaultdict(list), defaultdict(list)
    for index, (key, cell) in enumerate(pairs):
        if key is not None:
            continue
        behind = [other for other in reversed(keys[:index]) if other is not None]
        ahead = next((other for other in keys[index:] if other is not None), None)
        if behind and behind[0] not in cells and ahead in cells:
            before[ahead].append(_own(cell, taken))
        else:
            after[next((other for other in behind if other in cells), None)].append(_own(cell, taken))
    return [*after[None], *(c for key, cell in cells.items() for c in (*before[key], cell, *after[key]))]


def _leftover(key: str, cell: Cell, was: dict[str, Cell] | None) -> Leftover:
    lesson = (was or {}).get(key, cell)
    is_answer = is_answer_cell(lesson)
    why = "the exercise is gone or has another name" if is_answer else "the lesson has this cell no more"
    return Leftover(key, cell, why, is_answer, lesson["source"] if was and key in was else None)


def _as_is(cell: Cell) -> Cell:
    return {**cell, "metadata": dict(cell["metadata"])}


def _kernel(notebook: dict[str, Any]) -> dict[str, Any]:
    """The kernel that the student's copy runs on, whatever the lesson is released with."""
    metadata = notebook.get("metadata")
    names = ("kernelspec", "language_info")
    return {name: metadata[name] for name in names if name in metadata} if isinstance(metadata, dict) else {}


def _own(cell: Cell, taken: set[str]) -> Cell:
    """A cell with an id of its own. A copy of a graded cell is no graded cell: two of one name would stop nbgrader."""
    number, identity = 1, cell.get("id")
    while not isinstance(identity, str) or identity in taken:
        identity, number = f"own-{digest(cell)}-{number}", number + 1
    taken.add(identity)
    return {**cell, "id": identity, "metadata": {k: v for k, v in cell["metadata"].items() if k != "nbgrader"}}
