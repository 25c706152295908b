"""What the tests of `course update` do again and again."""

from pathlib import Path

from small_course import everything
from two_versions import forget_registry

from course.update.pull import pull
from course.update.update import update
from course.work.layout import Work


def here(work: Work, saved: Path | None) -> list[str]:
    """Go on in this process, which has to forget what it knows of the first version."""
    forget_registry()
    return update(work.folder, saved, work.root)


def pulled(course: Path) -> str:
    """Return what `course update --pull` says."""
    return "\n".join(pull(root=course, go_on=here))


def updated(course: Path, old: Path | None = None) -> str:
    """Return what `course update` says."""
    forget_registry()
    return "\n".join(update(root=course, old=old))


def text(course: Path, path: str) -> str:
    """Return the text of a file."""
    return (course / path).read_text(encoding="utf-8")


def outside_git(course: Path) -> dict[str, bytes]:
    """Return every file by its path, those of git left out."""
    return {path: content for path, content in everything(course).items() if not path.startswith(".git/")}


def only(folder: Path, pattern: str) -> Path:
    """Return the one file or folder of a pattern."""
    (found,) = folder.glob(pattern)
    return found
