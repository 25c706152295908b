"""One exercise's answer out of a student's code into the text of its module; nothing is run."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import CourseError
from ..paths import ROOT, packaged, read
from ..registry import Exercise, homes
from ..text.answers import is_stub, meaning
from ..text.rename import renamed
from ..text.source import Definition, Function, Module, defined_names, first_line, last_line, parse, tree_of, used_names
from .needed import DISPLAY, OWN, Needed, Piece


class NotAnswered(CourseError):
    """An exercise that a notebook does not have, or has without an answer."""


class Missing(NotAnswered):
    """An exercise whose function stands nowhere in what was handed in."""


@dataclass
class Code:
    """A student's code, from one notebook or several.

    Attributes:
        pieces: its statements, in order.
        broken: the names that cells which are not Python seem to define, and the error of each.
        notes: what was odd about the cells of an exercise, by its slug.
    """

    pieces: list[Piece] = field(default_factory=list)
    broken: list[tuple[set[str], CourseError]] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)


def take(exercise: Exercise, code: Code, text: str, root: Path = ROOT) -> tuple[str, list[str]]:
    """Return the module's text with this exercise's answer in it, and what was odd about that.

    Raises:
        Missing: no cell defines it.
        NotAnswered: it is defined, and not written.
        CourseError: its cell is not Python.
    """
    reference = Module.parse(exercise.module, read(packaged("nanolm", root) / exercise.file))
    found = {target: _answer(target, code) for target in exercise.targets}
    if all(index is None for index in found.values()):
        raise _why_not(exercise, code)
    notes = list(code.notes.get(exercise.slug, ()))
    for target, index in found.items():
        if index is None:
            notes.append(f"{target} is not written")
            continue
        notes += _oddities(target, code)
        text = _placed(text, exercise, target, code.pieces, index, reference, root)
    parse(text, f"{exercise.file} with {exercise.name}")
    return text, list(dict.fromkeys(notes))


def _written(target: str, code: Code) -> list[int]:
    """The student's statements that answer a target, the last one last."""
    return [i for i, piece in enumerate(code.pieces) if piece.kind == OWN and _answers(piece.node, target)]


def _answer(target: str, code: Code) -> int | None:
    """Of several answers the last one counts."""
    return next(reversed(_written(target, code)), None)


def _answers(node: ast.stmt, target: str) -> bool:
    """Whether a statement binds the target to something that is written."""
    function = _function(node, target)
    if function is not None:
        return not is_stub(function)
    name = target.rpartition(".")[2]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        bound = [ast.unparse(each) for each in (node.targets if isinstance(node, ast.Assign) else [node.target])]
        return target in bound and not isinstance(node.value, ast.Constant | None)
    if isinstance(node, ast.If | ast.Try | ast.With) and "." not in target:
        inside = [part for part in ast.walk(node) if isinstance(part, Function) and part.name == name]
        return any(not is_stub(part) for part in inside)
    return False


def _function(node: ast.stmt, target: str) -> Function | None:
    """The function or method itself; None where the statement is another."""
    owner, _, name = target.rpartition(".")
    if not owner:
        return node if isinstance(node, Function) and node.name == name else None
    if isinstance(node, ast.ClassDef) and node.name == owner:
        return next((each for each in reversed(node.body) if isinstance(each, Function) and each.name == name), None)
    return None


def _why_not(exercise: Exercise, code: Code) -> CourseError:
    heads = {target.split(".")[0] for target in exercise.targets}
    for names, error in reversed(code.broken):
        if names & (heads | {exercise.slug}):
            return error
    for piece in code.pieces:
        if piece.kind == OWN and any(_function(piece.node, target) is not None for target in exercise.targets):
            return NotAnswered("is not answered")
    return Missing(f"is not in it: no cell defines {' or '.join(exercise.targets)}")


def _oddities(target: str, code: Code) -> list[str]:
    written = [_function(code.pieces[i].node, target) for i in _written(target, code)]
    notes = []
    if len({meaning(node) if node is not None else index for index, node in enumerate(written)}) > 1:
        notes.append(f"{target} is written {len(written)} times; the last one counts")
    for names, error in code.broken:
        if target.split(".")[0] in names:
            notes.append(f"one cell with {target.split('.')[0]} is not Python ({error}); another one counts")
    return notes


def _placed(
    text: str, exercise: Exercise, target: str, pieces: Sequence[Piece], index: int, reference: Module, root: Path
) -> str:
    """Put the answer in the place of the target's stub, and before it what it needs."""
    piece, is_plain = pieces[index], _function(pieces[index].node, target) is not None
    home = {name.split(".")[0]: module for name, module in homes(root).items()}
    needed = Needed(pieces, index, reference, home.keys() - set(() if is_plain else exercise.targets))
    own = {target, piece.node.name if isinstance(piece.node, ast.ClassDef) else target}
    needed.add(used_names(piece.text) - (own if is_plain else set()), index)
    helpers, answer = [statement.text for statement in needed.statements()], piece.text
    helpers += [f"from nanolm.{home[name]} import {name}" for name in sorted(needed.engines)]
    helpers += [DISPLAY] if "display" in needed.unknown else []
    if not is_plain:
        helpers, answer = _wrapped(target, [*helpers, answer])
    elif "." in target:
        text = _with_members(text, exercise.module, piece, reference)
    helpers, answer = _apart(helpers, answer, text, exercise.number)
    text = _replaced(text, exercise.module, target, _lines(answer, target))
    return _inserted(text, exercise.module, target.split(".")[0], helpers)


def _apart(helpers: list[str], answer: str, text: str, number: str) -> tuple[list[str], str]:
    """Rename the helpers by whose names the file means something else; leave out those that it has already."""
    there = set(_texts(text))
    bound = set[str]().union(*(defined_names(each) for each in helpers if each not in there))
    for name in bound & defined_names(text):
        new = f"{name}_{number.replace('.', '_')}"
        helpers, answer = [renamed(each, name, new) for each in helpers], renamed(answer, name, new)
    return [each for each in helpers if each not in there], answer


def _texts(text: str) -> list[str]:
    lines = text.split("\n")
    return ["\n".join(lines[first_line(node) - 1 : last_line(node)]) for node in tree_of(text).body]


def _wrapped(target: str, parts: list[str]) -> tuple[list[str], str]:
    """An answer that is no plain function (`f = lambda …`, `f = cached(f)`) renamed, and a function that calls it."""
    name = target.rpartition(".")[2]
    inner = f"_{target.replace('.', '_')}"
    if "." in target:
        value = ast.parse(parts[-1]).body[0]
        assert isinstance(value, ast.Assign | ast.AnnAssign) and value.value is not None
        parts = [*parts[:-1], f"{inner} = {ast.unparse(value.value)}"]
    else:
        parts = [renamed(part, name, inner) for part in parts]
    return parts, f"def {name}(*args, **kwargs):\n    return {inner}(*args, **kwargs)"


def _lines(text: str, target: str) -> list[str]:
    """The lines of a function, or of a method at the four spaces that a class of the engine gives it."""
    (statement,) = tree_of(text).body
    node = statement if isinstance(statement, Function) else _function(statement, target)
    assert node is not None
    return _moved(text.split("\n")[first_line(node) - 1 : last_line(node)], "    " if "." in target else "")


def _moved(lines: list[str], indent: str) -> list[str]:
    """Lines at another indent, whether the old one was of spaces or of tabs."""
    old = len(lines[0]) - len(lines[0].lstrip())
    return [indent + line[old:] if line[:old].strip() == "" else line for line in lines]


def _replaced(text: str, module: str, target: str, lines: list[str]) -> str:
    node = Module.parse(module, text).find(target)
    old = text.split("\n")
    old[first_line(node) - 1 : last_line(node)] = lines
    return "\n".join(old)


def _with_members(text: str, module: str, piece: Piece, reference: Module) -> str:
    """What else the student's class has, methods and constants, which the asked ones may use, goes to its end."""
    assert isinstance(piece.node, ast.ClassDef)
    name = piece.node.name
    known = _members(reference.find(name))
    for child in piece.node.body:
        names = _names(child)
        if not names or names & known:
            continue
        owner = Module.parse(module, text).find(name)
        lines, old = piece.text.split("\n")[first_line(child) - 1 : last_line(child)], text.split("\n")
        for other in owner.body:
            if _names(other) == names:
                old[first_line(other) - 1 : last_line(other)] = _moved(lines, "    ")
                break
        else:
            old[last_line(owner) : last_line(owner)] = ["", *_moved(lines, "    ")]
        text = "\n".join(old)
    return text


def _members(owner: Definition) -> set[str]:
    return set().union(*(_names(child) for child in owner.body))


def _names(node: ast.stmt) -> set[str]:
    """The names that a statement of a class binds in it."""
    if isinstance(node, Definition):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return set()


def _inserted(text: str, module: str, owner: str, helpers: Sequence[str]) -> str:
    """Put helpers before the definition that uses them."""
    if not helpers:
        return text
    place = first_line(Module.parse(module, text).find(owner)) - 1
    lines, new = text.split("\n"), []
    for helper in helpers:
        is_long = isinstance(tree_of(helper).body[0], Definition)
        new += [*helper.split("\n"), *(["", ""] if is_long else [""])]
    lines[place:place] = new
    return "\n".join(lines)
