"""Answers as Python text: the functions in a cell or a file, and one function put into the place of another.

A function is cut after its docstring. What stands above the cut is the lesson's, and follows its corrections; what
stands below is the answer.
"""

import ast
import re
from dataclasses import dataclass
from itertools import takewhile

from .ipython import python_of
from .source import Definition, Function, defined_names, first_line, free_names, last_line, parse


@dataclass(frozen=True)
class Statement:
    """A top-level statement: the names it binds, its text with the comments right above it, and its tree."""

    names: frozenset[str]
    text: str
    node: ast.stmt


@dataclass(frozen=True)
class Cut:
    """A function's text, moved to the left edge.

    Attributes:
        header: decorators, signature and docstring.
        body: all the rest; None where it stands on the line of the signature.
        arguments: names, in order.
    """

    header: tuple[str, ...]
    body: tuple[str, ...] | None
    arguments: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The whole function."""
        return self.header + (self.body or ())


def statements(source: str, comments: bool = False) -> list[Statement]:
    """Return the statements of a cell or file; raise SyntaxError or ValueError where it is not Python.

    Args:
        comments: take the comment lines right above a statement for a part of it.
    """
    # IPython's own lines stand in the text as they are; only the parser is shown `pass` in their place.
    lines, found, free = source.split("\n"), [], 0
    for node in ast.parse(python_of(source)).body:
        first, last = first_line(node) - 1, last_line(node)
        if comments:
            first -= len(list(takewhile(lambda line: line.startswith("#"), reversed(lines[free:first]))))
        text, free = "\n".join(lines[first:last]), last
        found.append(Statement(frozenset(defined_names(python_of(text))), text, node))
    return found


def functions(source: str, where: str = "the cell") -> dict[str, Function]:
    """Return the functions of a text by name, "function" or "Class.method"; raise CourseError if it is not Python."""
    found: dict[str, Function] = {}
    for node in parse(python_of(source), where).body:
        if isinstance(node, Function):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{child.name}": child for child in node.body if isinstance(child, Function)}
    return found


def definitions(source: str) -> set[str]:
    """Return the names of functions and classes that a text defines at its top level, even if it is not Python."""
    try:
        return {node.name for node in ast.parse(python_of(source)).body if isinstance(node, Definition)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(re.findall(r"(?m)^(?:async +)?(?:def|class) +(\w+)", source))


def is_python(source: str) -> bool:
    """Return whether a cell or a file can be read."""
    try:
        ast.parse(python_of(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def unknown_names(text: str, targets: list[str]) -> dict[str, set[str]]:
    """Return, for functions of a file, the names that they use and that the file neither defines nor imports."""
    owners = {target: target.split(".")[0] for target in targets}
    by_name = {s.node.name: s.text for s in statements(text) if isinstance(s.node, Definition)}
    known = defined_names(python_of(text))
    found = {target: free_names(python_of(by_name[owner])) - known for target, owner in owners.items()}
    return {target: names for target, names in found.items() if names}


def is_stub(node: Function) -> bool:
    """Return whether nobody has written a function: after its docstring it only raises NotYetWritten."""
    last = node.body[-1]
    raised = last.exc if isinstance(last, ast.Raise) else None
    name = raised.func if isinstance(raised, ast.Call) else raised
    return len(node.body) <= 2 and isinstance(name, ast.Name) and name.id in ("NotYetWritten", "NotImplementedError")


def meaning(node: Function) -> str:
    """Return what two functions share if they compute the same in the same words: their trees without docstrings."""
    body = node.body[1:] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body
    return "\n".join(ast.dump(statement) for statement in body)


def cut(source: str, node: Function) -> Cut:
    """Return a function of a text, cut after its docstring."""
    lines = source.splitlines()
    first, last = first_line(node) - 1, _last_line(node, lines)
    middle = last_line(node.body[0]) if ast.get_docstring(node) is not None else _signature_end(node, lines)
    arguments = tuple(each.arg for each in _arguments(node.args))
    if middle >= first_line(node.body[-1]):  # nothing after the docstring, or all on one line
        return Cut(_to_edge(lines[first:last], node.col_offset), None, arguments)
    header, body = lines[first:middle], lines[middle:last]
    return Cut(_to_edge(header, node.col_offset), _to_edge(body, node.col_offset), arguments)


def grafted(mine: Cut, base: Cut | None, new: Cut) -> tuple[tuple[str, ...], str]:
    """Return an answer in the lesson's present function, and what the student should look at, or nothing.

    Args:
        mine: the student's function.
        base: the lesson's as it was when the student began; None if that is not known.
        new: the lesson's as it is now.
    """
    has_own_header = mine.header != (new.header if base is None else base.header)
    if mine.body is None or new.body is None or (has_own_header and base is not None and new.header == base.header):
        return mine.lines, ""
    was, now = ", ".join(mine.arguments), ", ".join(new.arguments)
    if was == now:
        return new.header + mine.body, ""
    if has_own_header:
        return mine.lines, f"its arguments are ({was}) in your answer and ({now}) in the lesson"
    return new.header + mine.body, f"its arguments were ({was}) and are ({now}) now; use these names in your answer"


def replaced(source: str, target: str, lines: tuple[str, ...]) -> str:
    """Return a text with other lines in the place of one of its functions."""
    node, old = functions(source)[target], source.splitlines()
    old[first_line(node) - 1 : _last_line(node, old)] = indented(lines, node.col_offset)
    return "\n".join(old) + ("\n" if source.endswith("\n") else "")


def indented(lines: tuple[str, ...], columns: int) -> list[str]:
    """Return lines moved to the right; empty ones stay empty."""
    return [" " * columns + line if line.strip() else line for line in lines]


def _to_edge(lines: list[str], columns: int) -> tuple[str, ...]:
    return tuple(line if line[:columns].strip() else line[columns:] for line in lines)


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return [each for each in every if each is not None]


def _signature_end(node: Function, lines: list[str]) -> int:
    """The number of the line with the colon, for a function without a docstring."""
    parts = [*_arguments(node.args), *node.args.defaults, *filter(None, [node.returns, *node.args.kw_defaults])]
    end = max([node.lineno, *(part.end_lineno or 0 for part in parts)])
    while end < first_line(node.body[0]) - 1 and not lines[end - 1].partition("#")[0].rstrip().endswith(":"):
        end += 1
    return end


def _last_line(node: Function, lines: list[str]) -> int:
    """The number of the last line, comments below the last statement included: they belong to no node."""
    last, column = last_line(node), node.body[0].col_offset
    while last < len(lines) and lines[last].strip().startswith("#") and _indent(lines[last]) >= column:
        last += 1
    return last


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
