"""A lesson as its author writes it, `solutions/weekNN_name.py`: prose, code, exercises and written questions.

The format is jupytext's py:percent. An exercise is an import with a comment, `# exercise: name, name`, and the
fields below it; a written question is a Markdown cell with `written="name"` in its head.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from ..errors import CourseError
from ..paths import read
from .front_doors import home

_PART = re.compile(r"week\d\d_\d_\w+")
_IMPORT = re.compile(r"from nanolm\.(\w+) import ([\w, ]+?)\s*# exercise: *([\w, ]+)$")
_FIELD = re.compile(r"# (points|minutes|difficulty|tested|why|hint): *(.*)$")
_NUMBERS = ("points", "minutes", "difficulty")
_TEXTS = ("tested", "why", "hint")
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


@dataclass(frozen=True)
class Cell:
    """A cell that passes through as it is: Markdown or code."""

    kind: str  # "markdown" or "code"
    text: str
    index: int  # place among the lesson's cells
    metadata: dict = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class ExerciseCell:
    """An exercise: which functions or methods of which module, and what the student is told."""

    module: str
    imported: str  # the function, or the class whose methods are asked
    targets: tuple[str, ...]  # "function" or "Class.method"
    fields: dict
    index: int

    @property
    def name(self) -> str:
        """What `check` calls it: the function, Class.method, or the class where several methods are asked."""
        return self.targets[0] if len(self.targets) == 1 else self.imported

    @property
    def slug(self) -> str:
        """The name of its cells in a notebook, in the letters that are allowed there."""
        return _slug(self.name)

    @property
    def title(self) -> str:
        """The heading: as the name, every method named."""
        if len(self.targets) == 1:
            return self.name
        return f"{self.imported}: {', '.join(target.split('.')[-1] for target in self.targets)}"


@dataclass(frozen=True)
class WrittenCell:
    """A question answered in words and graded by hand."""

    name: str
    question: str
    answer: str
    fields: dict
    index: int

    @property
    def slug(self) -> str:
        """The name of its cells in a notebook, in the letters that are allowed there."""
        return _slug(self.name)

    @property
    def title(self) -> str:
        """The heading."""
        return f"in words: {self.name}"


@dataclass(frozen=True)
class Lesson:
    """A week's lesson, read from its source file."""

    path: Path

    @property
    def name(self) -> str:
        """The notebook's name, week04_speculative; week06_2_paging where a week has several."""
        return self.path.stem

    @property
    def parts(self) -> list["Lesson"]:
        """The lessons of its week, in order: itself alone unless its file is named weekNN_D_name.py."""
        if not _PART.fullmatch(self.name):
            return [self]
        beside = sorted(self.path.parent.glob(f"{self.name[:6]}_*.py"))
        return [self if path == self.path else Lesson(path) for path in beside if _PART.fullmatch(path.stem)]

    @property
    def folder(self) -> str:
        """The assignment's name, which is its folder's: week06_batching_paging for week06_1_batching and the next."""
        if len(self.parts) == 1:
            return self.name
        return "_".join([self.name[:6], *(part.name[9:] for part in self.parts)])

    def notebook_in(self, top: str) -> str:
        """Return the path of its notebook under solutions or notebooks, with forward slashes."""
        return f"{top}/{self.folder}/{self.name}.ipynb"

    @property
    def week(self) -> int:
        """The number in the file's name."""
        return int(self.name[4:6])

    @property
    def title(self) -> str:
        """The first heading."""
        for cell in self.cells:
            if isinstance(cell, Cell) and cell.text.startswith("# "):
                return cell.text.splitlines()[0][2:]
        raise CourseError(f"{self.path.name} has no heading: a lesson starts with a Markdown cell '# Week N · …'")

    @cached_property
    def notebook(self):
        """The source as jupytext reads it."""
        import jupytext

        return jupytext.reads(read(self.path), fmt="py:percent")

    @cached_property
    def cells(self) -> list[Cell | ExerciseCell | WrittenCell]:
        """All cells in order; raise CourseError for a malformed exercise or question."""
        return [self._cell(index, cell) for index, cell in enumerate(self.notebook.cells)]

    @property
    def tasks(self) -> list[tuple[str, ExerciseCell | WrittenCell]]:
        """Exercises and written questions, each with its number: week.order, counted through all parts of the week."""
        earlier = takewhile(lambda part: part is not self, self.parts)
        first = 1 + sum(len(part.tasks) for part in earlier)
        tasks = [cell for cell in self.cells if not isinstance(cell, Cell)]
        return [(f"{self.week}.{order}", task) for order, task in enumerate(tasks, start=first)]

    def _cell(self, index: int, cell) -> Cell | ExerciseCell | WrittenCell:
        where = f"{self.path.name}, cell {index + 1}"
        if "written" in cell.metadata:
            return _written(cell, index, where)
        if cell.cell_type == "code" and re.search(r"# exercise:", cell.source):
            return _exercise(cell.source, index, where, self.path.parent.parent)
        return Cell("code" if cell.cell_type == "code" else "markdown", cell.source, index, dict(cell.metadata))


def lessons(folder: Path) -> list[Lesson]:
    """Return the lessons of a folder in the order of their weeks."""
    found = [Lesson(path) for path in sorted(folder.glob("week*.py"))]
    for lesson in found:
        if not re.fullmatch(r"week\d\d_\w+", lesson.name):
            raise CourseError(f"{lesson.path.name}: a lesson's file is named weekNN_name.py, two digits")
    return found


def _exercise(source: str, index: int, where: str, root: Path) -> ExerciseCell:
    first, *rest = source.strip().splitlines()
    match = _IMPORT.match(first)
    if match is None:
        raise CourseError(f"{where}: {first!r}; an exercise starts 'from nanolm.module import name  # exercise: name'")
    package, imported, asked = match[1], _names(match[2]), _names(match[3])
    if len(imported) != 1:
        raise CourseError(f"{where}: an exercise imports one name, a function or a class; this imports {imported}")
    try:
        module = home(package, imported[0], root)
    except CourseError as error:
        raise CourseError(f"{where}: {error}") from None
    is_function = asked == imported
    targets = tuple(asked if is_function else [f"{imported[0]}.{method}" for method in asked])
    return ExerciseCell(module, imported[0], targets, _fields(rest, where), index)


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", name)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _fields(lines: list[str], where: str) -> dict:
    """The `# name: value` lines; one that starts with '#   ' continues the field above it."""
    fields, last = {}, None
    for line in filter(str.strip, lines):
        match = _FIELD.match(line)
        if match:
            last = match[1]
            fields[last] = match[2].strip()
        elif line.startswith("#  ") and last:
            fields[last] += " " + line[1:].strip()
        else:
            raise CourseError(f"{where}: {line!r} is no field; allowed are {', '.join((*_NUMBERS, *_TEXTS))}")
    missing = [name for name in (*_NUMBERS, *_TEXTS) if not fields.get(name)]
    if missing:
        raise CourseError(f"{where}: the exercise lacks '# {missing[0]}: …'")
    return fields | _numbers(fields, where)


def _numbers(fields: dict, where: str) -> dict:
    limits = {"points": (1, 100), "minutes": (1, 600), "difficulty": (1, 5)}
    for name, (low, high) in limits.items():
        value = str(fields.get(name, "missing"))
        if not (value.isdecimal() and low <= int(value) <= high):
            raise CourseError(f"{where}: {name} is {value}; it must be a whole number from {low} to {high}")
    return {name: int(fields[name]) for name in _NUMBERS}


def _written(cell, index: int, where: str) -> WrittenCell:
    name = str(cell.metadata["written"])
    question, begin, rest = cell.source.partition(BEGIN)
    answer, end, tail = rest.partition(END)
    if not (cell.cell_type == "markdown" and begin and end and question.strip() and answer.strip()) or tail.strip():
        raise CourseError(f"{where}: a written question is Markdown: the question, {BEGIN}, the model answer, {END}")
    return WrittenCell(name, question.strip(), answer.strip(), _numbers(dict(cell.metadata), where), index)
