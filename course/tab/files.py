"""What the tab loads, put among the book's static files: Pyodide, the archive, and the released notebooks."""

import shutil
from collections.abc import Callable
from pathlib import Path

from ..paths import ROOT
from ..registry import Exercise, registry
from .archive import archive
from .pyodide import VERSION, fetched
from .reach import checkable

FOLDER = "_static/try"


def put(source: Path, kept: Path, tell: Callable[[str], None] = print, root: Path = ROOT) -> list[Exercise]:
    """Put the tab's files into a book's source, and return the exercises that it checks; none without Pyodide.

    Args:
        source: the folder that Sphinx reads.
        kept: the folder for what is fetched.
    """
    found = fetched(kept)
    if found is None:
        tell(f"left out, the exercises in a browser's tab: npm, which has pyodide {VERSION}, is not here or offline")
        return []
    names = checkable()
    exercises = [exercise for exercise in registry(root) if exercise.name in names]
    wheel = next(found.glob("*.whl"))
    folder = source / FOLDER
    (folder / "notebooks").mkdir(parents=True, exist_ok=True)
    (folder / "python.zip").write_bytes(archive(exercises, wheel, root))
    shutil.copytree(found, folder / "pyodide", ignore=shutil.ignore_patterns("*.whl", "*.tgz"))
    for notebook in {exercise.notebook for exercise in exercises}:
        shutil.copy(root / notebook, folder / "notebooks")
    return exercises
