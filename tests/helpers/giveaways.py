"""Whether a file that asks for a function prints its answer elsewhere, alike up to the names of variables.

An answer's pieces are its expressions and its runs of neighbouring statements. Refusals of bad arguments are left out:
they are the same everywhere, and no secret.
"""

import ast
import copy
import functools
import re
from collections.abc import Iterator
from typing import NamedTuple


class Found(NamedTuple):
    """The largest piece of an answer that a text holds: how much of the answer it is, and the piece."""

    n_nodes: int
    share: float
    piece: str

    @property
    def tells(self) -> bool:
        """Whether it tells something: a few steps, or two fifths of a short answer. `return self.length` does not."""
        return self.n_nodes >= 12 or (self.n_nodes >= 3 and self.share >= 0.4)


def largest_piece(answer: ast.FunctionDef, text: str) -> Found:
    """Return the largest piece of the answer that stands in the text: in its code, or as `code` in its strings."""
    told = _told(text)
    body = [statement for statement in answer.body if not _refuses(statement)]
    pieces = sorted(_pieces(ast.Module(body, [])), key=_size, reverse=True)
    piece = next((piece for piece in pieces if _without_names(piece) in told), [])
    n_nodes = _size(piece)
    return Found(n_nodes, n_nodes / max(1, _size(body)), "\n".join(map(ast.unparse, piece)))


@functools.cache  # one file asks for several functions, and has thousands of pieces
def _told(text: str) -> frozenset[str]:
    """Every piece of a text."""
    return frozenset(map(_without_names, _pieces(ast.parse(text)))) | frozenset(_in_strings(text))


def _pieces(tree: ast.AST) -> Iterator[list[ast.AST]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            yield [node]
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                block = [statement for statement in block if not _refuses(statement)]
                yield from (block[i:j] for i in range(len(block)) for j in range(i + 1, len(block) + 1))


def _in_strings(text: str) -> Iterator[str]:
    for code in re.findall(r"`([^`]+)`", text):
        try:
            expression = ast.parse(code.strip(), mode="eval").body
        except SyntaxError:
            continue
        yield from (_without_names([node]) for node in ast.walk(expression) if isinstance(node, ast.expr))


def _refuses(node: ast.AST) -> bool:
    """Whether a statement is a docstring, or only raises, or calls what only raises."""
    if isinstance(node, ast.If | ast.For):
        return not node.orelse and all(map(_refuses, node.body))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = ast.unparse(node.value.func).rpartition(".")[2]
        return name.lstrip("_").startswith(("require", "check", "need"))
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


class _Renaming(ast.NodeTransformer):
    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.setdefault(node.id, f"v{len(self.names)}"), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.names.setdefault(node.arg, f"v{len(self.names)}"))


def _without_names(piece: list[ast.AST]) -> str:
    renaming = _Renaming()
    return "\n".join(ast.unparse(ast.fix_missing_locations(renaming.visit(copy.deepcopy(node)))) for node in piece)


def _size(piece: list[ast.AST]) -> int:
    """How much a piece says: its nodes, the mere mention of a variable not counted."""
    nodes = (node for part in piece for node in ast.walk(part))
    return sum(not isinstance(node, ast.expr_context | ast.Name) for node in nodes)
