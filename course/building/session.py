"""What lets a notebook be worked in at any cell: the set-up of its answers, and what a lab's cell needs before it runs.

Nobody writes these lines down: they follow from the names that answers and cells use, so they cannot go stale.
"""

import ast
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..text.ipython import python_of
from ..text.source import Module, defined_names, first_line, free_names, import_lines
from .lesson import Cell, ExerciseCell, Lesson

OF_THE_COURSE = ("NotYetWritten", "check", "needs")
SET_UP = "# Set-up"  # how the lesson's own set-up cell begins; its names are there for every cell after it
_LIMIT = 120
_DRAWS = re.compile(r"\bfigures\.\w+\(")
_MEASURES = re.compile(r"\b(?:take_turns|side_by_side|perf_counter)\(")


def definition(cell: ExerciseCell, module: Module) -> str:
    """Return the text of the function or class that an exercise asks of a module."""
    node, lines = module.find(cell.imported), module.text.splitlines()
    return "\n".join(lines[first_line(node) - 1 : node.end_lineno])


def set_up(tasks: Sequence[ExerciseCell], modules: dict[str, Module]) -> str:
    """Return the first code cell: every import that the answers of a notebook need, in the usual three groups."""
    lines = [f"from course import {', '.join(OF_THE_COURSE)}"]
    for task in tasks:
        names = free_names(definition(task, modules[task.module])) - {*OF_THE_COURSE, task.imported}
        lines += import_lines(modules[task.module], names)
    return "\n".join([f"{SET_UP} for the exercises", *_sorted(lines)])


def _sorted(lines: Iterable[str]) -> list[str]:
    """Imports in the order of a linter: the standard library, other packages, the course's; one line a module."""
    plain: set[str] = set()
    taken: dict[str, set[str]] = {}
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.ImportFrom):
            taken.setdefault(node.module or "", set()).update(map(ast.unparse, node.names))
        else:
            plain.add(ast.unparse(node))
    statements = sorted(plain) + [_from(module, sorted(names, key=_by_case)) for module, names in sorted(taken.items())]
    groups: list[list[str]] = [[], [], []]
    for statement in statements:
        groups[_group(statement.split()[1].partition(".")[0])].append(statement)
    return "\n\n".join("\n".join(group) for group in groups if group).splitlines()


def _group(package: str) -> int:
    return 2 if package in ("nanolm", "course") else 0 if package in sys.stdlib_module_names else 1


def _by_case(name: str) -> tuple[bool, bool, str]:
    return (not name.isupper(), not name[0].isupper(), name)  # constants, classes, functions


def _from(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= _LIMIT else "\n".join([f"from {module} import (", *(f"    {n}," for n in names), ")"])


@dataclass
class Session:
    """What the cells of a lesson need, asked cell by cell in their order.

    Attributes:
        lesson: the lesson.
        modules: the engine's modules that its exercises are in.
        made: the section in which each name of a lab was made so far.
        section: the heading that was passed last.
    """

    lesson: Lesson
    modules: dict[str, Module]
    made: dict[str, str] = field(default_factory=dict)
    section: str = ""

    def __post_init__(self) -> None:
        tasks = [(number, task) for number, task in self.lesson.tasks if isinstance(task, ExerciseCell)]
        self.order = [number for number, _ in tasks]
        self.numbers: dict[str, list[str]] = {}
        for number, task in tasks:
            self.numbers.setdefault(task.imported, []).append(number)
        self.given = defined_names(set_up([task for _, task in tasks], self.modules)) - set(self.numbers)
        self.uses = {
            number: free_names(definition(task, self.modules[task.module])) & set(self.numbers)
            for number, task in tasks
        }

    def read(self, text: str) -> None:
        """Take note of the headings of a text."""
        for line in re.findall(r"(?m)^#+ (.*)$", text):
            self.section = line.strip()

    def source(self, cell: Cell) -> str:
        """Return a lab's code with the line that says what it needs; nothing is added where it needs nothing."""
        python = python_of(cell.text)
        if cell.text.startswith(SET_UP):
            return cell.text
        used = free_names(python) if python else set()
        arguments = [json.dumps(number) for number in self._exercises(used)]
        earlier = {name: self.made[name] for name in sorted(used - self.given) if name in self.made}
        arguments += [f"{name}={json.dumps(section, ensure_ascii=False)}" for name, section in earlier.items()]
        self.made |= dict.fromkeys(defined_names(python) if python else (), self.section)
        return cell.text if not arguments else _with_first_line(cell.text, _call(arguments))

    def _exercises(self, used: set[str]) -> list[str]:
        """The exercises that a cell's names lead to, those that their answers use among them."""
        found: set[str] = set()
        names = used & set(self.numbers)
        while names:
            numbers = {number for name in names for number in self.numbers[name]} - found
            found |= numbers
            names = {name for number in numbers for name in self.uses[number]}
        return [number for number in self.order if number in found]


def without_needs(source: str) -> str:
    """Return a lab's code without the line that `Session.source` has put in."""
    return re.sub(r"(?m)\A(%%.*\n)?needs\((?:[^\n]*|(?:\n    .*,)+\n)\)\n", r"\1", source)


def _with_first_line(source: str, line: str) -> str:
    first, rest = source.split("\n", 1) if source.startswith("%%") and "\n" in source else ("", source)
    return "\n".join([*([first] if first else []), line, rest])


def _call(arguments: list[str]) -> str:
    line = f"needs({', '.join(arguments)})"
    return line if len(line) <= _LIMIT else "\n".join(["needs(", *(f"    {argument}," for argument in arguments), ")"])


def draws(source: str) -> bool:
    """Return whether a lab's cell makes a picture; its code is folded then, the picture stays."""
    return bool(_DRAWS.search(source))


def measures(source: str) -> bool:
    """Return whether a lab's cell takes times; its code has to be seen."""
    return bool(_MEASURES.search(source))
