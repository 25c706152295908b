"""Give a global name of a piece of Python another one, wherever that very name is meant."""

import ast
import re
from collections.abc import Iterable, Iterator

from .source import Function

_Scope = Function | ast.Lambda


def renamed(text: str, old: str, new: str) -> str:
    """Return a text in which the global name `old` is `new`; local variables and attributes of that name stay."""
    finder = _Finder(old)
    finder.visit(ast.parse(text))
    lines = [line.encode("utf-8") for line in text.split("\n")]  # columns of a tree are counted in bytes
    word = re.compile(rb"\b" + re.escape(old.encode()) + rb"\b")
    for line, column in sorted(set(finder.places), reverse=True):
        head, tail = lines[line - 1][:column], lines[line - 1][column:]
        now = f"{old} as {new}" if (line, column) in finder.imports else new
        lines[line - 1] = head + word.sub(now.encode(), tail, count=1)
    return b"\n".join(lines).decode("utf-8")


class _Finder(ast.NodeVisitor):
    """Takes down (line, column) of each place at which the global name stands, or behind which it comes next."""

    def __init__(self, name: str) -> None:
        self.name, self.depth = name, 0
        self.places: list[tuple[int, int]] = []
        self.imports: set[tuple[int, int]] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == self.name:
            self.places.append((node.lineno, node.col_offset))

    def visit_Global(self, node: ast.Global) -> None:
        if self.name in node.names:
            self.places.append((node.lineno, node.col_offset + len("global")))

    def visit_alias(self, node: ast.alias) -> None:
        if self.depth == 0 and self.name == (node.asname or node.name):
            place = (node.lineno, node.col_offset + (len(node.name.encode()) if node.asname else 0))
            self.places.append(place)
            self.imports |= set() if node.asname else {place}

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._definition(node, len("class"))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._definition(node, len("def"))

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._definition(node, len("async def"))

    def visit_Lambda(self, node: ast.Lambda) -> None:
        if not self._is_local(node):
            self.generic_visit(node)

    def _definition(self, node: Function | ast.ClassDef, width: int) -> None:
        if node.name == self.name and self.depth == 0:
            self.places.append((node.lineno, node.col_offset + width))
        outside = [*node.decorator_list, *(node.bases if isinstance(node, ast.ClassDef) else [node.args])]
        for part in outside:
            self.visit(part)
        if isinstance(node, ast.ClassDef) or not self._is_local(node):
            self.depth += 1
            for part in node.body:
                self.visit(part)
            self.depth -= 1

    def _is_local(self, node: _Scope) -> bool:
        """Whether a function has a variable of its own by that name."""
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        if self.name in {each.arg for each in every if each is not None}:
            return True
        inside = list(_own(node.body if isinstance(node.body, list) else [node.body]))
        if any(isinstance(part, ast.Global) and self.name in part.names for part in inside):
            return False
        return any(self.name in _bound(part) for part in inside)


def _own(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every part of a function's own scope: of functions and classes inside it, only that they are there."""
    for part in statements:
        yield part
        if not isinstance(part, _Scope | ast.ClassDef):
            yield from _own(ast.iter_child_nodes(part))


def _bound(part: ast.AST) -> set[str]:
    """The names that one part of a scope binds in it."""
    if isinstance(part, ast.Name):
        return {part.id} if isinstance(part.ctx, ast.Store) else set()
    if isinstance(part, ast.alias):
        return {(part.asname or part.name).partition(".")[0]}
    if isinstance(part, Function | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and part.name:
        return {part.name}
    return set()
