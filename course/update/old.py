"""Where answers come from that belong into another version: a folder with an older course in it, or a backup."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..building.stubs import stub_files
from ..errors import CourseError
from ..paths import read
from ..text.files import text_of
from ..work.layout import Work
from .exercises import OldFile
from .git import Repository

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
    repository = Repository.of(folder)
    notebooks = dict(_edited_releases(folder, repository)) | dict(_copies(folder))
    return Old(list(_exercises(folder, repository)), notebooks)


def _exercises(folder: Path, repository: Repository | None) -> Iterator[OldFile]:
    source, fresh = folder / "exercises", {}
    if repository is None:
        # An older course may list its exercises in another way, or nothing may be there: then no base is known.
        with contextlib.suppress(CourseError, OSError, ValueError, KeyError, TypeError):
            fresh = stub_files(folder)
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        base = _original(folder, f"exercises/{name}", repository) or fresh.get(name)
        if path.name != "__init__.py" and text_of(path) != base:
            yield OldFile(name, text_of(path), base)


def _original(folder: Path, path: str, repository: Repository | None) -> str | None:
    """A file as the course had it: as the backup has noted it, or as it was committed."""
    saved = folder / ORIGINALS / path
    if saved.is_file():
        return read(saved)
    return repository.committed_or_none(path) if repository else None


def _copies(folder: Path) -> Iterator[tuple[str, tuple[str, str | None]]]:
    work = Work(folder / "work", folder, "")
    for path in sorted(work.folder.glob("*/*.ipynb")):
        lesson = path.relative_to(work.folder).as_posix()
        if not lesson.startswith("."):
            yield lesson, (text_of(path), work.original(lesson))


def _edited_releases(folder: Path, repository: Repository | None) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Notebooks that were answered in notebooks/ itself."""
    source, work = folder / "notebooks", Work(folder / "work", folder, "")
    for path in sorted(source.glob("*/*.ipynb")):
        lesson, text = path.relative_to(source).as_posix(), text_of(path)
        base = _original(folder, f"notebooks/{lesson}", repository)
        if not work.is_released(lesson, text) if base is None else text != base:
            yield lesson, (text, base)
