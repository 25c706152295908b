"""Where answers come from that belong into another version: a folder with an older course in it, or a backup."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import CourseError
from ..paths import read
from ..registry import FILE
from .exercises import OldFile, stubs
from .layout import Work

ORIGINALS = "originals"  # in a backup: the files as they were before the student edited them


@dataclass
class Old:
    """A student's work on an older version.

    Attributes:
        exercises: files of exercises/.
        notebooks: by their path from notebooks/, the student's text and the lesson it began as, if that is known.
    """

    exercises: list[OldFile] = field(default_factory=list)
    notebooks: dict[str, tuple[str, str | None]] = field(default_factory=dict)


def old_course(folder: Path) -> Old:
    """Return the work in a folder: an older course with its work/ and exercises/, or a backup of these.

    Raises:
        CourseError: there is no such folder, or nothing of a course in it.
    """
    if not any((folder / name).is_dir() for name in ("exercises", "work", "notebooks")):
        raise CourseError(f"{folder} is no folder of a course or a backup: it has no exercises/, work/ or notebooks/")
    notebooks = dict(_edited_releases(folder)) | dict(_copies(folder))
    return Old(list(_exercises(folder)), notebooks)


def _exercises(folder: Path) -> Iterator[OldFile]:
    source = folder / "exercises"
    is_whole = (folder / FILE).is_file() and (folder / "nanolm").is_dir()
    fresh = stubs(folder) if is_whole else {}
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        saved = folder / ORIGINALS / "exercises" / name
        base = read(saved) if saved.is_file() else fresh.get(name)
        if path.name != "__init__.py" and read(path) != base:
            yield OldFile(name, read(path), base)


def _copies(folder: Path) -> Iterator[tuple[str, tuple[str, str | None]]]:
    work = Work(folder / "work", folder, "")
    for path in sorted(work.folder.glob("*/*.ipynb")):
        lesson = path.relative_to(work.folder).as_posix()
        if not lesson.startswith("."):
            yield lesson, (read(path), work.original(lesson))


def _edited_releases(folder: Path) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Notebooks that were answered in notebooks/ itself."""
    source = folder / "notebooks"
    for path in sorted(source.glob("*/*.ipynb")):
        lesson, text = path.relative_to(source).as_posix(), read(path)
        saved = folder / ORIGINALS / "notebooks" / lesson
        if not Work(folder / "work", folder, "").is_released(lesson, text):
            yield lesson, (text, read(saved) if saved.is_file() else None)
