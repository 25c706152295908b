"""Which files of the course its tests and its tool need in an empty environment."""

import ast
from collections.abc import Iterator
from pathlib import Path

from ..paths import read
from ..registry import registry

_LEFT_OUT = {"__pycache__", ".ipynb_checkpoints"}


def whole(folder: str, root: Path) -> dict[str, bytes]:
    """Return every file of a folder of the course by path from the root; caches and hidden files left out."""
    paths = [path for path in sorted((root / folder).rglob("*")) if path.is_file()]
    names = {path: path.relative_to(root) for path in paths}
    kept = [path for path in paths if not any(p in _LEFT_OUT or p[0] == "." for p in names[path].parts)]
    return {names[path].as_posix(): path.read_bytes() for path in kept}


def grading_tests(root: Path) -> dict[str, bytes]:
    """Return the tests that grade exercises, and of tests/helpers/ what they import, by path from the root."""
    waiting = ["tests/conftest.py", *sorted({t for e in registry(root) for t in e.tests})]
    found: dict[str, bytes] = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = read(root / name).encode("utf-8")
            waiting += [f"tests/{file}" for file in _imported(found[name].decode("utf-8"), root / "tests")]
    return dict(sorted(found.items()))


def _imported(text: str, tests: Path) -> Iterator[str]:
    """The files of tests/ and tests/helpers/ that a test imports, or names as plugins, by their bare names."""
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytest_plugins":
            names = list(ast.literal_eval(node.value))
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        for name in names:
            for file in (f"{name}.py", f"helpers/{name}.py"):
                if (tests / file).is_file():
                    yield file
