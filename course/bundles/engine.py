"""The engine and exercises/ as a release has them: answers out of sight, everything still runs."""

from collections.abc import Sequence
from pathlib import Path

from ..building.stubs import stub_file
from ..errors import CourseError
from ..paths import read
from ..registry import Exercise, registry
from ..text.source import Module, body_span, path_of
from . import unpacking

_HOOK = "\nfrom ._packed import install\n\ninstall()\n"


def asked(last_solved: int, root: Path) -> list[Exercise]:
    """Return the exercises of the weeks after `last_solved`."""
    return [exercise for exercise in registry(root) if exercise.week > last_solved]


def engine_files(last_solved: int, root: Path) -> dict[str, bytes]:
    """Return what of nanolm/ differs in a release, by path from the root.

    The bodies of exercises after week `last_solved` are gone from the text; the whole files are packed, and
    `nanolm/_packed.py` runs them.
    """
    left, files = asked(last_solved, root), dict[str, bytes]()
    for name in dict.fromkeys(exercise.module for exercise in left):
        module = Module.parse(name, read(root / "nanolm" / path_of(name)))
        files[f"nanolm/{path_of(name)}"] = _without_bodies(module, left).encode("utf-8")
        files[f"nanolm/{unpacking.PACKED}/{unpacking.name_of(path_of(name))}"] = unpacking.pack(module.text)
    files["nanolm/_packed.py"] = read(Path(unpacking.__file__)).encode("utf-8")
    files["nanolm/__init__.py"] = _with_hook(read(root / "nanolm" / "__init__.py")).encode("utf-8")
    return files


def exercise_files(last_solved: int, root: Path) -> dict[str, bytes]:
    """Return every module of exercises/ by path from the root, answered up to week `last_solved`."""
    left, files = asked(last_solved, root), dict[str, bytes]()
    for name in dict.fromkeys(exercise.module for exercise in registry(root)):
        module = Module.parse(name, read(root / "nanolm" / path_of(name)))
        is_open = any(exercise.module == name for exercise in left)
        files[f"exercises/{path_of(name)}"] = (stub_file(module, left) if is_open else module.text).encode("utf-8")
    return files


def _without_bodies(module: Module, left: Sequence[Exercise]) -> str:
    lines = module.text.splitlines()
    spans = {
        body_span(module.find(target), lines, target): exercise
        for exercise in left
        if exercise.module == module.name
        for target in exercise.targets
    }
    for first, last in sorted(spans, reverse=True):
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        said = f"exercise {spans[first, last].number}: its code is packed, see nanolm/_packed.py"
        lines[first - 1 : last] = [f'{indent}raise NotImplementedError("{said}")']
    return "\n".join(lines) + "\n"


def _with_hook(text: str) -> str:
    """The engine's front door, which first of all lets Python read packed files."""
    end = text.find('"""\n', 3)
    if not text.startswith('"""') or end < 0:
        raise CourseError("nanolm/__init__.py must begin with a docstring")
    return text[: end + 4] + _HOOK + text[end + 4 :]
