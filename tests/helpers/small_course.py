"""A course of one short lesson in a temporary folder, to build and to break."""

import shutil
from pathlib import Path

from course.paths import ROOT

LESSON = "week04_mini"
ROOMS = ("speculative", "cache")  # of the engine: those that the lesson asks something of
TESTS = ("speculative/test_acceptance.py", "cache/test_contiguous.py")  # read for their marks, and not run


def small_course(folder: Path) -> Path:
    """Return the folder with an engine of two rooms, their tests, a start page and the lesson week04_mini in it."""
    for room in ROOMS:
        shutil.copytree(ROOT / "nanolm" / room, folder / "nanolm" / room, ignore=shutil.ignore_patterns("__pycache__"))
    for test in TESTS:
        (folder / "tests" / test).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / test, folder / "tests" / test)
    (folder / "solutions").mkdir()
    # Kept as .txt: a lesson is no module, and a formatter must not reorder its imports.
    shutil.copy(Path(__file__).parent / f"{LESSON}.txt", folder / "solutions" / f"{LESSON}.py")
    (folder / "solutions" / "start.py").write_text("# %% [markdown]\n# # Start\n#\n# {{weeks}}\n", encoding="utf-8")
    return folder


def change(path: Path, old: str, new: str, count: int = -1) -> None:
    """Replace a text that must be there, everywhere or the first `count` times."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path}"
    path.write_text(text.replace(old, new, count), encoding="utf-8", newline="\n")


def everything(folder: Path) -> dict[str, bytes]:
    """Return every file under a folder by its path."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
