"""Proof, line by line, that no solution is in a release.

Of a model answer or a mark scheme no line may stand anywhere. Of an exercise's body no line may stand in the engine or
in exercises/, unless the rest of the engine has the same line for itself; in tests, the tool and notebooks a line of
less than 30 characters may stand too: `cache.advance(1)` is how anybody would write it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..building.lesson import BEGIN, END
from ..paths import read
from ..registry import Exercise
from ..text.files import load
from ..text.source import Module, body_span

_SHORT, _USUAL = 12, 30  # characters: `return total` says nothing; a usual line is no copy
_TEXT = (".py", ".ipynb", ".md", ".toml", ".txt", ".json", ".yml", ".csv", ".tsv")


@dataclass(frozen=True)
class Secrets:
    """Lines that a release must not have, without the spaces around them.

    Attributes:
        prose: of model answers and mark schemes.
        code: of the bodies of exercises, less what the rest of the engine says too.
    """

    prose: frozenset[str]
    code: frozenset[str]


def secrets(hidden: list[Exercise], root: Path) -> Secrets:
    """Return the lines of all model answers and mark schemes, and those of the bodies of these exercises."""
    prose = {line for text in _answers(root) for line in _lines(text) if " " in line}
    bodies = {line for text in _bodies(hidden, root) for line in _lines(text) if len(line) >= _SHORT}
    return Secrets(frozenset(prose), frozenset(bodies - _own_lines(hidden, root)))


def leaks(files: Mapping[str, bytes], secret: Secrets) -> list[str]:
    """Return a line for each line of a solution that stands in one of the files (by path from the release's root)."""
    found = []
    for path, content in files.items():
        if path.endswith(_TEXT):
            for line in _lines(_said(path, content.decode("utf-8", errors="replace"))):
                is_engine = path.startswith(("nanolm/", "exercises/"))
                if line in secret.prose or (line in secret.code and (is_engine or len(line) >= _USUAL)):
                    found.append(f"{path} has a line of a solution: {line}")
    return found


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def _said(path: str, text: str) -> str:
    """What stands in a file; of a notebook its cells and their outputs."""
    if not path.endswith(".ipynb"):
        return text
    cells = json.loads(text)["cells"]
    return "\n".join(["".join(cell["source"]) for cell in cells] + [t for c in cells for t in _texts(c.get("outputs"))])


def _texts(value: Any) -> Iterator[str]:
    """Every text in a part of a notebook."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(part)


def _answers(root: Path) -> Iterator[str]:
    """The answers in words, as the solution notebooks have them."""
    between = re.compile(rf"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", flags=re.DOTALL)
    for path in sorted((root / "solutions").glob("*/*.ipynb")):
        for cell in load(path)["cells"]:
            if cell["cell_type"] == "markdown":
                yield from between.findall(cell["source"])


def _bodies(exercises: list[Exercise], root: Path) -> Iterator[str]:
    for exercise in exercises:
        text = read(root / "nanolm" / exercise.file)
        module, lines = Module.parse(exercise.module, text), text.splitlines()
        for target in exercise.targets:
            first, last = body_span(module.find(target), lines, target)
            yield "\n".join(lines[first - 1 : last])


def _own_lines(exercises: list[Exercise], root: Path) -> set[str]:
    """Every line of the engine outside the bodies of these exercises."""
    own = set[str]()
    asked = {exercise.module for exercise in exercises}
    for path in (root / "nanolm").rglob("*.py"):
        name = path.relative_to(root / "nanolm").as_posix().removesuffix(".py").replace("/", ".")
        lines = read(path).splitlines()
        if name in asked:
            module, spans = Module.parse(name, "\n".join(lines)), []
            for target in (t for exercise in exercises if exercise.module == name for t in exercise.targets):
                spans.append(body_span(module.find(target), lines, target))
            for first, last in sorted(spans, reverse=True):
                del lines[first - 1 : last]
        own.update(line.strip() for line in lines)
    return own
