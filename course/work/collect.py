"""Answers out of notebooks into a folder shaped like exercises/, read as text: nothing of the student's is run."""

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from ..building.session import SET_UP
from ..building.stubs import stub_file
from ..errors import CourseError
from ..paths import ROOT, packaged, read, write
from ..registry import Exercise, registry
from ..text.answers import Statement, definitions, is_python, statements
from ..text.cells import Cell, by_key, digest, grade_id, is_answer_cell, key_of
from ..text.files import load
from ..text.ipython import python_of
from ..text.source import Module, parse, path_of
from .needed import LAB, LESSON, OWN, Piece
from .taking import Code, take


@dataclass(frozen=True)
class Found:
    """What a notebook gave.

    Attributes:
        notebook: its file.
        exercise: what was looked for; None where the notebook itself is at fault.
        problem: why it was not taken; None where it was.
        notes: what was odd, and how it was read.
    """

    notebook: Path
    exercise: Exercise | None
    problem: CourseError | None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = "" if self.exercise is None else f"{self.exercise.name} "
        return f"{self.notebook}: {name}{self.problem or '; '.join(['taken', *self.notes])}"


def collect(notebooks: Sequence[Path], into: Path, root: Path = ROOT) -> list[str]:
    """Write the answers found in the notebooks to `into`, a file a module; return one line for each thing found.

    An exercise that is not answered, or cannot be read, stays what it is in `into`: a stub at first.
    """
    return [str(found) for found in gather(notebooks, into, root)]


def gather(notebooks: Sequence[Path], into: Path, root: Path = ROOT) -> list[Found]:
    """Write answers as `collect` does; return what was found."""
    found = []
    files = {name: _present(name, into, root) for name in dict.fromkeys(e.module for e in registry(root))}
    for path in notebooks:
        try:
            cells = load(path)["cells"]
            asked = _asked(path, cells, registry(root))
            code = code_of(cells, lesson_cells(asked, root), {exercise.slug for exercise in asked})
        except CourseError as error:
            found.append(Found(path, None, error))
            continue
        for exercise in asked:
            try:
                files[exercise.module], notes = take(exercise, code, files[exercise.module], root)
                found.append(Found(path, exercise, None, tuple(notes)))
            except CourseError as error:
                found.append(Found(path, exercise, error))
    for name, text in files.items():
        write(into / path_of(name), text)
    for folder in {into, *((into / path_of(name)).parent for name in files)}:
        door = root / "exercises" / folder.relative_to(into) / "__init__.py"
        if door.is_file() and not (folder / "__init__.py").exists():
            write(folder / "__init__.py", read(door))
    return found


def lesson_cells(exercises: Sequence[Exercise], root: Path = ROOT) -> dict[str, Cell]:
    """Return the cells of the released notebooks that ask these exercises, by their keys."""
    found: dict[str, Cell] = {}
    for name in dict.fromkeys(exercise.notebook for exercise in exercises):
        found |= _released(root / name)
    return found


@cache
def _released(path: Path) -> dict[str, Cell]:
    return by_key(load(path)["cells"]) if path.is_file() else {}


def _present(name: str, into: Path, root: Path) -> str:
    """What the folder holds already, so that two notebooks and an editor can fill one; a stub otherwise."""
    existing = into / path_of(name)
    return read(existing) if existing.exists() else start(name, root)


def start(name: str, root: Path = ROOT) -> str:
    """Return the file of exercises/ for a module of the engine, with nothing answered."""
    return stub_file(Module.parse(name, read(packaged("nanolm", root) / path_of(name))), registry(root))


def code_of(cells: Sequence[Cell], lesson: Mapping[str, Cell] | None = None, asked: Collection[str] = ()) -> Code:
    """Return the student's code in a notebook's cells.

    Args:
        lesson: the lesson's own cells by their keys, to tell what is the student's.
        asked: the names of the answers' cells, which are code whatever became of the cell's type.
    """
    code, plain = Code(), {digest(cell) for cell in (lesson or {}).values() if not is_answer_cell(cell)}
    for cell in cells:
        key = key_of(cell)
        if cell.get("cell_type") != "code":
            if key is None or key not in asked or not is_python(cell["source"]):
                continue
            code.notes.setdefault(key, []).append("its cell was no code cell any more; it is read as one")
        _add(code, cell["source"], key, _kind(cell, plain))
    return code


def _kind(cell: Cell, plain: Collection[str]) -> str:
    tags = cell["metadata"].get("tags")
    is_lab = isinstance(tags, list) and "lab" in tags
    if is_lab and not is_answer_cell(cell) and grade_id(cell) is None:
        return LAB if not cell["source"].startswith(SET_UP) else LESSON
    return LESSON if digest(cell) in plain else OWN


def _add(code: Code, source: str, key: str | None, kind: str) -> None:
    try:
        code.pieces += [Piece(statement, kind) for statement in _statements(source)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        code.broken.append((definitions(source) | {key or ""}, _error_of(python_of(source))))


@lru_cache(maxsize=4096)
def _statements(source: str) -> tuple[Statement, ...]:
    """A cell's statements; a class hands in most cells as the lesson has them."""
    return tuple(map(_alone, statements(python_of(source))))


def _error_of(python: str) -> CourseError:
    try:
        parse(python, "its cell")
    except CourseError as error:
        return error
    return CourseError("its cell cannot be read as Python")


def _alone(statement: Statement) -> Statement:
    """The same with a tree that counts lines from the statement's own first."""
    found = ast.parse(statement.text).body
    alike = [node for node in found if node.col_offset == statement.node.col_offset]
    return replace(statement, node=(alike or found)[0])


def _asked(path: Path, cells: Sequence[Cell], exercises: list[Exercise]) -> list[Exercise]:
    """The exercises that belong to a notebook: by its cells' ids, or by its name where the ids are lost."""
    keys = {key_of(cell) for cell in cells}
    asked = [e for e in exercises if e.slug in keys or Path(e.notebook).stem == path.stem]
    if not asked:
        names = sorted({Path(exercise.notebook).stem for exercise in exercises})
        raise CourseError(f"has no exercise of this course in it, and is not named like one of {', '.join(names)}")
    return asked
