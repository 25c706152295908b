"""Mutants of the reference: each exercise's own code with one small change, which its tests have to notice.

Planted mistakes are those that people make; mutants are those that nobody thought of (DeMillo, Lipton and Sayward 1978,
"Hints on test data selection"). One that no test notices is either equivalent, told with the reason in
tests/planted/equivalent.py, or a hole in the tests.
"""

import ast
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..grading.runner import TESTS
from ..paths import ROOT, read
from ..registry import Exercise
from ..text.source import Module

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
        ast.In: ast.NotIn,
        ast.NotIn: ast.In,
        ast.Is: ast.IsNot,
        ast.IsNot: ast.Is,
    },
}
_OPERATIONS: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Div, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
    **{ast.LShift: ast.RShift, ast.RShift: ast.LShift},
}


@dataclass(frozen=True)
class Mutant:
    """The text of a whole file with one change, and the change: "function: what stood there -> what stands there"."""

    name: str
    text: str


def mutants(exercise: Exercise) -> Iterator[Mutant]:
    """Yield every mutant of the functions and methods that an exercise asks for."""
    module = Module.parse(exercise.module, read(ROOT / "nanolm" / exercise.file))
    for target in exercise.targets:
        for statement, node in _inside(module.find(target)):
            for new in _changes(node):
                before = _shown(statement)
                _Exchange(node, new).visit(module.tree)
                after = _shown(new if node is statement else statement)
                yield Mutant(f"{target}: {before} -> {after}", ast.unparse(module.tree))
                _Exchange(new, node).visit(module.tree)


@cache
def equivalent() -> dict[str, str]:
    """Return {a mutant's name: why no test can tell it from the reference}."""
    path = TESTS / "planted" / "equivalent.py"
    return runpy.run_path(str(path))["EQUIVALENT"] if path.exists() else {}


def _inside(function: Any) -> list[tuple[ast.AST, ast.AST]]:
    """(statement, node) for the nodes of a body, but for docstring, annotations and what errors and f-strings say."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    waiting: list[tuple[ast.AST, ast.AST]] = [(node, node) for node in reversed(body)]
    found = []
    while waiting:
        statement, node = waiting.pop()
        found.append((statement, node))
        if not isinstance(node, ast.Raise | ast.JoinedStr):
            children = [child for child in ast.iter_child_nodes(node) if child is not getattr(node, "annotation", None)]
            waiting += [(child if isinstance(child, ast.stmt) else statement, child) for child in reversed(children)]
    return found


class _Exchange(ast.NodeTransformer):
    """Put one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _shown(node: ast.AST) -> str:
    """A node on one line; of a statement with a body the first line."""
    return ast.unparse(node).splitlines()[0]


def _changes(node: ast.AST) -> list[ast.AST]:
    """Everything that one node is changed into."""
    for kind, change in _OF.items():
        if isinstance(node, kind):
            return [ast.copy_location(new, node) for new in change(node)]
    return []


def _comparison(node: ast.Compare) -> Iterator[ast.AST]:
    for i, operator in enumerate(node.ops):
        other = _COMPARISONS[type(operator)]()
        yield ast.Compare(node.left, [*node.ops[:i], other, *node.ops[i + 1 :]], node.comparators)


def _operation(node: ast.BinOp) -> Iterator[ast.AST]:
    if type(node.op) in _OPERATIONS:
        yield ast.BinOp(node.left, _OPERATIONS[type(node.op)](), node.right)


def _assignment(node: ast.AugAssign) -> Iterator[ast.AST]:
    yield ast.Pass()
    yield ast.Assign([node.target], node.value)
    if type(node.op) in _OPERATIONS:
        yield ast.AugAssign(node.target, _OPERATIONS[type(node.op)](), node.value)


def _both(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    for i in range(len(node.values)):
        others = [*node.values[:i], *node.values[i + 1 :]]
        yield others[0] if len(others) == 1 else ast.BoolOp(node.op, others)


def _sign(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield node.operand


def _number(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)


def _branch(node: Any) -> Iterator[ast.AST]:
    swapped = isinstance(node.test, ast.Compare) and isinstance(
        node.test.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot
    )
    if not swapped:  # by _comparison
        yield type(node)(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)


def _call(node: ast.Call) -> Iterator[ast.AST]:
    for i in range(len(node.keywords)):
        yield ast.Call(node.func, node.args, [*node.keywords[:i], *node.keywords[i + 1 :]])


def _slice(node: ast.Slice) -> Iterator[ast.AST]:
    if node.lower is not None:
        yield ast.Slice(None, node.upper, node.step)
    if node.upper is not None:
        yield ast.Slice(node.lower, None, node.step)


def _left_out(node: ast.AST) -> Iterator[ast.AST]:
    yield ast.Pass()


def _effect(node: ast.Expr) -> Iterator[ast.AST]:
    if isinstance(node.value, ast.Call):
        yield ast.Pass()


_OF: dict[Any, Any] = {
    ast.Compare: _comparison,
    ast.BinOp: _operation,
    ast.AugAssign: _assignment,
    ast.BoolOp: _both,
    ast.UnaryOp: _sign,
    ast.Constant: _number,
    ast.If | ast.While | ast.IfExp: _branch,
    ast.Call: _call,
    ast.Slice: _slice,
    ast.Expr: _effect,
    ast.Raise | ast.Break | ast.Continue: _left_out,
}
