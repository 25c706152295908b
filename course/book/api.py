"""The engine's API as pages for Sphinx: a room a page, every public name of its front door, from the docstrings."""

import ast
from pathlib import Path

from ..building.front_doors import names_of, packages
from ..paths import ROOT, read
from ..text.source import Definition, Module

_HIDDEN = ("cli",)  # a command: its page would be `--help`


def api_pages(root: Path = ROOT) -> dict[str, str]:
    """Return reStructuredText by the page's path: an overview, and a page a room."""
    rooms = [room for room in packages(root) if room not in _HIDDEN]
    return {"api/index.rst": _overview(rooms, root)} | {f"api/{room}.rst": _room(room, root) for room in rooms}


def _overview(rooms: list[str], root: Path) -> str:
    rows = [f"   * - :doc:`{room}`\n     - {_says(room, root)}" for room in rooms]
    front = [f".. autofunction:: nanolm.{name}" for name in ("load", "save")]
    return "\n".join(
        [
            *_title("The engine", "="),
            "A name is imported from its room, ``from nanolm.cache import KVCache``; the most used ones stand at the",
            "front too: ``nanolm.load``, ``save``, ``NanoLM``, ``KVCache``, ``Engine``, ``SamplingParams``,",
            "``Tokenizer``, ``ModelConfig``. Shapes are written in these letters:",
            "",
            *_legend(root),
            "",
            *(".. list-table::", "   :header-rows: 1", "", "   * - room", "     - what it is", *rows, ""),
            *("Loading and saving", "------------------", "", *front, ""),
            *(".. toctree::", "   :hidden:", "", *(f"   {room}" for room in rooms), ""),
        ]
    )


def _legend(root: Path) -> list[str]:
    """The letters of shapes, from the engine's own docstring."""
    doc = ast.get_docstring(ast.parse(read(root / "nanolm" / "__init__.py"))) or ""
    parts = [part.strip() for line in doc.split("\n\n")[-1].splitlines() for part in line.split("·")]
    return [f"- **{part[0]}** {part[1:].strip()}" for part in parts]


def _room(room: str, root: Path) -> str:
    tree = ast.parse(read(root / "nanolm" / room / "__init__.py"))
    by_file: dict[str, list[str]] = {}
    for name, file in names_of(room, root).items():
        by_file.setdefault(file, []).append(name)
    lines = [*_title(room, "="), *(ast.get_docstring(tree) or "").splitlines(), ""]
    for file, names in sorted(by_file.items()):
        module = Module.parse(f"{room}.{file}", read(root / "nanolm" / room / f"{file}.py"))
        lines += [*_title(f"{file}.py", "-"), *(ast.get_docstring(module.tree) or "").splitlines(), ""]
        for name in names:
            lines += [*_entry(room, name, module), ""]
    return "\n".join(lines)


def _entry(room: str, name: str, module: Module) -> list[str]:
    node = next((each for each in module.tree.body if isinstance(each, Definition) and each.name == name), None)
    if node is None:
        return [f".. py:data:: nanolm.{room}.{name}"]  # a constant has no docstring; its value may be a page long
    if isinstance(node, ast.ClassDef):
        return [f".. autoclass:: nanolm.{room}.{name}", "   :members:", "   :member-order: bysource"]
    return [f".. autofunction:: nanolm.{room}.{name}"]


def _says(room: str, root: Path) -> str:
    doc = ast.get_docstring(ast.parse(read(root / "nanolm" / room / "__init__.py"))) or ""
    return " ".join(doc.split("\n\n")[0].split())


def _title(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]
