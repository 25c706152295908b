"""Answers out of notebooks into a folder shaped like exercises/, read as text: nothing of the student's is run."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..building.stubs import stub_file
from ..errors import CourseError
from ..paths import ROOT, read, write
from ..registry import Exercise, registry
from ..text.answers import Statement, is_stub, statements
from ..text.cells import grade_id
from ..text.files import load
from ..text.source import (
    Definition,
    Function,
    Module,
    defined_names,
    first_line,
    free_names,
    last_line,
    parse,
    path_of,
    python_of,
)


class NotAnswered(CourseError):
    """An exercise that a notebook does not have, or has without an answer."""


@dataclass(frozen=True)
class Found:
    """What a notebook gave.

    Attributes:
        notebook: its file.
        exercise: what was looked for; None where the notebook itself is at fault.
        problem: why it was not taken; None where it was.
    """

    notebook: Path
    exercise: Exercise | None
    problem: CourseError | None

    def __str__(self) -> str:
        name = "" if self.exercise is None else f"{self.exercise.name} "
        return f"{self.notebook}: {name}{self.problem or 'taken'}"


def collect(notebooks: Sequence[Path], into: Path, root: Path = ROOT) -> list[str]:
    """Write the answers found in the notebooks to `into`, a file a module; return one line for each thing found.

    An exercise that is not answered, or cannot be read, stays what it is in `into`: a stub at first.
    """
    return [str(found) for found in gather(notebooks, into, root)]


def gather(notebooks: Sequence[Path], into: Path, root: Path = ROOT) -> list[Found]:
    """Write answers as `collect` does; return what was found."""
    found = []
    files = {name: _start(name, into, root) for name in dict.fromkeys(e.module for e in registry(root))}
    for path in notebooks:
        try:
            statements, cells = read_notebook(path)
            asked = _asked(path, cells, registry(root))
        except CourseError as error:
            found.append(Found(path, None, error))
            continue
        for exercise in asked:
            try:
                files[exercise.module] = _take(exercise, statements, cells, files[exercise.module], root)
                found.append(Found(path, exercise, None))
            except CourseError as error:
                found.append(Found(path, exercise, error))
    for name, text in files.items():
        write(into / path_of(name), text)
    for folder in {into, *((into / path_of(name)).parent for name in files)}:
        door = root / "exercises" / folder.relative_to(into) / "__init__.py"
        if door.is_file() and not (folder / "__init__.py").exists():
            write(folder / "__init__.py", read(door))
    return found


def _start(name: str, into: Path, root: Path) -> str:
    """What the folder holds already, so that two notebooks and an editor can fill one; a stub otherwise."""
    existing = into / path_of(name)
    if existing.exists():
        return read(existing)
    return stub_file(Module.parse(name, read(root / "nanolm" / path_of(name))), registry(root))


def read_notebook(path: Path) -> tuple[list[Statement], dict[str, str]]:
    """Return the top-level statements of all code cells that are Python, and the code cells by nbgrader id.

    Raises:
        CourseError: no such file, not JSON, or not a notebook.
    """
    found, by_id = [], {}
    for cell in load(path)["cells"]:
        if cell.get("cell_type") != "code":
            continue
        name = grade_id(cell)
        if name:
            by_id[name] = cell["source"]
        found += _statements(cell["source"])
    return found, by_id


def _statements(source: str) -> list[Statement]:
    """The statements of one cell; none where it is not Python, which is reported for the exercise's own cell."""
    try:
        return statements(python_of(source))
    except (SyntaxError, ValueError):
        return []


def _asked(path: Path, cells: dict[str, str], exercises: list[Exercise]) -> list[Exercise]:
    """The exercises that belong to a notebook: by its cells' ids, or by its name where the ids are lost."""
    asked = [e for e in exercises if e.slug in cells or Path(e.notebook).stem == path.stem]
    if not asked:
        names = sorted({Path(exercise.notebook).stem for exercise in exercises})
        raise CourseError(f"has no exercise of this course in it, and is not named like one of {', '.join(names)}")
    return asked


def _take(exercise: Exercise, statements: list[Statement], cells: dict[str, str], text: str, root: Path) -> str:
    """Return the module's text with this exercise's answer in it."""
    answer = _definition(exercise, statements, cells)
    reference = Module.parse(exercise.module, read(root / "nanolm" / exercise.file))
    helpers = _helpers(answer.text, statements, defined_names(reference.text))
    for target in exercise.targets:
        node = _part(answer.node, target)
        if is_stub(node):
            raise NotAnswered("is not answered")
        text = _replace(text, exercise.module, target, _lines(answer, node, target))
    text = _add_methods(text, exercise, answer, reference)
    for helper in helpers:
        text = _insert(text, exercise, helper)
    parse(text, f"{exercise.file} with {exercise.name}")
    return text


def _definition(exercise: Exercise, statements: list[Statement], cells: dict[str, str]) -> Statement:
    """The answer's own cell first; where its id is lost, or nothing written, the last definition of that name."""
    name = exercise.targets[0].split(".")[0]
    source = cells.get(exercise.slug)
    if source is not None:
        parse(python_of(source), "its cell")
    candidates = [*reversed(_statements(source or "")), *reversed(statements)]
    found = [s for s in candidates if isinstance(s.node, Definition) and s.node.name == name]
    if not found:
        raise NotAnswered(f"is not in it: no cell defines {name}")
    return next((statement for statement in found if _is_written(statement.node)), found[0])


def _is_written(node: ast.stmt) -> bool:
    functions = [child for child in ast.walk(node) if isinstance(child, Function)]
    return bool(functions) and not any(is_stub(function) for function in functions)


def _part(node: ast.stmt, target: str) -> Function:
    """The function or method itself."""
    name = target.split(".")[-1]
    if isinstance(node, Function) and node.name == name:
        return node
    for child in getattr(node, "body", []):
        if isinstance(child, Function) and child.name == name:
            return child
    raise NotAnswered(f"is not in it: no cell defines {target}")


def _lines(answer: Statement, node: Function, target: str) -> list[str]:
    """The text of a function, or of a method at the four spaces that a class of the engine gives it."""
    start = first_line(answer.node)
    lines = answer.text.splitlines()[first_line(node) - start : last_line(node) - start + 1]
    shift = (4 if "." in target else 0) - node.col_offset
    if shift == 0:
        return lines
    return [" " * shift + line if shift > 0 else line[-shift:] for line in lines]


def _replace(text: str, module: str, target: str, lines: list[str]) -> str:
    current = Module.parse(module, text)
    node = current.find(target)
    old = text.splitlines()
    old[first_line(node) - 1 : node.end_lineno] = lines
    return "\n".join(old) + "\n"


def _add_methods(text: str, exercise: Exercise, answer: Statement, reference: Module) -> str:
    """Methods of the student's own, which the asked ones may call, go to the end of the class."""
    if not isinstance(answer.node, ast.ClassDef):
        return text
    known = {child.name for child in reference.find(answer.node.name).body if isinstance(child, Function)}
    for child in answer.node.body:
        if isinstance(child, Function) and child.name not in known:
            current = Module.parse(exercise.module, text)
            owner = current.find(answer.node.name)
            lines = _lines(answer, child, f"{owner.name}.{child.name}")
            if child.name in {other.name for other in owner.body if isinstance(other, Function)}:
                text = _replace(text, exercise.module, f"{owner.name}.{child.name}", lines)
            else:
                old = text.splitlines()
                old[owner.end_lineno : owner.end_lineno] = ["", *lines]
                text = "\n".join(old) + "\n"
    return text


def _helpers(text: str, statements: list[Statement], known: set[str]) -> list[Statement]:
    """The student's own statements that bind a name which the answer, or one of these, uses; in their order."""
    wanted, open_names = [], free_names(text) - known
    while open_names:
        name = open_names.pop()
        binding = next((s for s in reversed(statements) if name in s.names and s.text != text), None)
        if binding is not None and binding not in wanted:
            wanted.append(binding)
            open_names |= free_names(binding.text) - known
    return sorted(wanted, key=statements.index)


def _insert(text: str, exercise: Exercise, helper: Statement) -> str:
    """Put a helper before the answer that uses it, unless the file has that very statement."""
    if helper.text in text:
        return text
    module = Module.parse(exercise.module, text)
    place = first_line(module.find(exercise.targets[0].split(".")[0])) - 1
    lines = text.splitlines()
    gap = ["", ""] if isinstance(helper.node, Definition) else [""]
    lines[place:place] = [*helper.text.splitlines(), *gap]
    return "\n".join(lines) + "\n"
