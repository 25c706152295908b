"""From an engine module to its file in exercises/: the same text, the bodies of the exercises gone."""

import ast
import textwrap
from pathlib import Path

from ..paths import packaged, read
from ..registry import Exercise, registry
from ..text.source import Module, body_span, path_of

_IMPORT = "from course import NotYetWritten"
_WIDTH = 110


def stub_files(root: Path) -> dict[str, str]:
    """Return every file of exercises/ as the course releases it, by its path from there; packages' doors left out."""
    exercises = registry(root)
    names = dict.fromkeys(exercise.module for exercise in exercises)
    return {
        path_of(n): stub_file(Module.parse(n, read(packaged("nanolm", root) / path_of(n))), exercises) for n in names
    }


def stub_file(module: Module, exercises: list[Exercise]) -> str:
    """Return the module's text with each asked body replaced by a line that raises NotYetWritten."""
    lines = module.text.splitlines()
    spans = {
        body_span(module.find(target), lines, target): exercise
        for exercise in exercises
        if exercise.module == module.name
        for target in exercise.targets
    }
    for first, last in sorted(spans, reverse=True):
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        lines[first - 1 : last] = _raise(spans[first, last].stub_message, indent)
    return "\n".join(_with_import(lines, module)) + "\n"


def room_file(room: str) -> str:
    """Return the __init__.py of a folder in exercises/: the engine's names, each from the file that lies nearest."""
    return f'''"""Exercises of `nanolm.{room}`. What is not here is the engine's own."""

from pathlib import Path

import nanolm
from nanolm._lazy import lazy
from nanolm.{room} import _HOMES

__path__.append(str(Path(nanolm.__file__).parent / "{room}"))
__getattr__, __dir__ = lazy(__name__, _HOMES)
'''


def _raise(message: str, indent: str) -> list[str]:
    """The statement, its one-line message cut into literals that fit the page."""
    pieces = textwrap.wrap(message, _WIDTH - len(indent), drop_whitespace=False, break_on_hyphens=False)
    literals = [f"{indent}    {_literal(piece)}" for piece in pieces]
    return [f"{indent}raise NotYetWritten(", *literals, f"{indent})"]


def _literal(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'


def _with_import(lines: list[str], module: Module) -> list[str]:
    """Our import goes after the module's last, or after its docstring where it imports nothing."""
    last = 0
    for node in module.tree.body:
        is_docstring = node is module.tree.body[0] and isinstance(node, ast.Expr)
        if isinstance(node, ast.Import | ast.ImportFrom) or is_docstring:
            last = node.end_lineno
    # Bodies stand behind every import, so the replaced lines have moved nothing here.
    return [*lines[:last], "", _IMPORT, *lines[last:]]
