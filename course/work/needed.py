"""Which of a student's statements an answer needs: helpers, constants, imports, and what fills a table."""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..text.answers import Statement
from ..text.source import Definition, Module, defined_names, origin, used_names

OWN, LESSON, LAB = "own", "lesson", "lab"
DISPLAY = "def display(*values, **options):\n    print(*values)"  # IPython puts one there; a file has none


@dataclass(frozen=True)
class Piece:
    """A statement of a notebook or a file.

    Attributes:
        statement: its names, its text as plain Python, its tree, which counts lines from its own first.
        kind: OWN where the student wrote it, LESSON or LAB where the lesson did.
    """

    statement: Statement
    kind: str = OWN

    @property
    def node(self) -> ast.stmt:
        """The tree."""
        return self.statement.node

    @property
    def text(self) -> str:
        """The text."""
        return self.statement.text


class Needed:
    """Finds what an answer needs among the pieces of a student's code.

    Args:
        pieces: in the order of the notebook.
        at: the index of the answer. A name means what it meant when that cell was run, so the binding before it
            counts; only where there is none, the first one behind it.
        reference: the engine's module of the exercise; its names are there already.
        asked: names that exercises ask for. These are the engine's: each exercise is tested alone.
    """

    def __init__(self, pieces: Sequence[Piece], at: int, reference: Module, asked: Iterable[str]) -> None:
        self.pieces, self.at, self.reference, self.asked = pieces, at, reference, set(asked)
        self.known = defined_names(reference.text)
        self.found: set[int] = set()
        self.engines: set[str] = set()
        self.unknown: set[str] = set()
        self._seen: set[tuple[str, int]] = set()

    def add(self, names: Iterable[str], limit: int) -> None:
        """Find what binds these names as they stand at piece `limit`, and all that this needs in turn."""
        waiting = [(name, limit) for name in names]
        while waiting:
            name, before = waiting.pop()
            if (name, before) in self._seen:
                continue
            self._seen.add((name, before))
            if name in self.asked:
                self.engines |= {name} - self.known
                continue
            index = self._binding(name, before)
            if index is None:
                self.unknown |= {name} - self.known
                continue
            for each in [index, *self._changes(name, index, before)]:
                if each not in self.found:
                    self.found.add(each)
                    waiting += self._uses(each)

    def statements(self) -> list[Statement]:
        """Return what was found, in its order; star imports too where a name is bound by nothing else."""
        if self.unknown:
            self.found |= {i for i, piece in enumerate(self.pieces) if _is_star(piece.node) and i != self.at}
        return [self.pieces[index].statement for index in sorted(self.found)]

    def _binding(self, name: str, before: int) -> int | None:
        """The student's own binding first, then the lesson's, and a lab's only if there is no other."""
        kinds = [OWN] if name in self.known else [OWN, LESSON, LAB]
        for kind in kinds:
            places = [i for i in self._places(name, kind) if i != self.at]
            earlier = [i for i in places if i < before]
            if earlier or (places and name not in self.known):
                return earlier[-1] if earlier else places[0]
        return None

    def _places(self, name: str, kind: str) -> list[int]:
        return [
            index
            for index, piece in enumerate(self.pieces)
            if piece.kind == kind and name in piece.statement.names and not self._is_known_import(name, piece)
        ]

    def _is_known_import(self, name: str, piece: Piece) -> bool:
        """Whether a statement only imports what the engine's module has by that name anyway."""
        if name not in self.known or not isinstance(piece.node, ast.Import | ast.ImportFrom):
            return False
        where = getattr(piece.node, "module", None) or piece.node.names[0].name
        if where.partition(".")[0] in ("nanolm", "course") or getattr(piece.node, "level", 0):
            return True
        mine = origin(Module("own", piece.text, ast.Module([piece.node], [])), name)
        return mine == origin(self.reference, name)

    def _changes(self, name: str, index: int, before: int) -> list[int]:
        """The student's statements between a binding and its use that fill or change what it binds."""
        stop = max(before, index + 1)
        return [i for i in range(index + 1, stop) if self.pieces[i].kind == OWN and name in _changed(self.pieces[i])]

    def _uses(self, index: int) -> list[tuple[str, int]]:
        """A definition looks names up when it is called, by then up to the answer; anything else at once."""
        piece = self.pieces[index]
        is_later = isinstance(piece.node, Definition)
        names = used_names(piece.text) - (piece.statement.names if is_later else set())
        names |= {_root(part.target) for part in ast.walk(piece.node) if isinstance(part, ast.AugAssign)} - {""}
        return [(name, self.at if is_later else index) for name in names]


def _is_star(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"


def _changed(piece: Piece) -> set[str]:
    """The names whose objects a statement changes: `TABLE[i] = …`, `rules.append(…)`, `helper.cache = {}`."""
    if isinstance(piece.node, Definition | ast.Import | ast.ImportFrom):
        return set()
    found = set()
    for node in ast.walk(piece.node):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(_root(node))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found.add(_root(node.value.func) if isinstance(node.value.func, ast.Attribute) else "")
    return found - {""}


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
