"""What a mark depends on besides the answer, as one short word: the tests of the exercise, the engine, the grader."""

import ast
import hashlib
import re
from functools import lru_cache
from pathlib import Path

from ..paths import ROOT, read
from ..registry import Exercise
from ..text.source import first_line, last_line, tree_of


def fingerprint(exercise: Exercise) -> str:
    """Return what changes when a test of this exercise does, or what its tests use, the engine's file, or the grader.

    A corrected test touches the exercises that it grades, and no other of the same file.
    """
    tests = [_tests_of(_text(ROOT / name), exercise.targets) for name in exercise.tests]
    files = [ROOT / "nanolm" / exercise.file, ROOT / "tests" / "impl.py", ROOT / "tests" / "conftest.py"]
    files += sorted((ROOT / "course" / "grading").glob("*.py"))
    used = _helpers("".join([*tests, *map(_text, files[1:3])]))
    return hashlib.sha256("\0".join([*tests, *map(_text, [*files, *used])]).encode()).hexdigest()[:20]


def _text(path: Path) -> str:
    status = path.stat()
    return _kept(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1024)
def _kept(path: Path, saved: int, size: int) -> str:
    """A file's text, read again only when it is another one: a class asks for it ten thousand times."""
    return read(path)


@lru_cache(maxsize=1024)
def _tests_of(text: str, targets: tuple[str, ...]) -> str:
    """A file of tests without the tests that grade other exercises."""
    lines = text.split("\n")
    for node in reversed(tree_of(text).body):
        name = getattr(node, "name", "").lower()
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and name.startswith("test"):
            here = slice(first_line(node) - 1, last_line(node))
            source = "\n".join(lines[here])
            if not any(f'"{target}"' in source for target in targets):
                del lines[here]
    return "\n".join(line for line in lines if line.strip())


def _helpers(text: str) -> list[Path]:
    """The files of tests/helpers that a text imports, and those that they import."""
    there = {path.stem: path for path in sorted((ROOT / "tests" / "helpers").glob("*.py"))}
    found: set[str] = set()
    waiting = [text]
    while waiting:
        named = set(re.findall(r"(?m)^\s*(?:from|import) +(\w+)", waiting.pop())) & there.keys()
        waiting += [_text(there[name]) for name in named - found]
        found |= named
    return [there[name] for name in sorted(found)]
