"""What an update is going to do: files, and what to tell the student of them."""

from dataclasses import dataclass, field
from pathlib import Path

from ..text.files import Changes
from .layout import KEPT, NOTE, ORIGINALS, Work


@dataclass
class Plan:
    """Changes to a student's files that nobody has made yet.

    Attributes:
        work: the student's folder.
        changes: files to write and to remove.
        plain: those among them that hold nothing of the student's, so that no backup is needed.
        done, look, kept: lines for the student: what was done, what to look at, what has no place and where it is.
    """

    work: Work
    changes: Changes = field(default_factory=Changes)
    plain: set[Path] = field(default_factory=set)
    done: list[str] = field(default_factory=list)
    look: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def keep(self, name: str, text: str, why: str) -> None:
        """Plan a file in kept/ for something that has no place in the course."""
        path = self.work.kept / name
        count = 1
        while path in self.changes.new:
            count += 1
            path = path.with_name(f"{Path(name).stem}-{count}{path.suffix}")
        self.changes.write(path, text)
        self.kept.append(f"kept in {self.work.shown(path)}: {why}")

    @property
    def changes_notebooks(self) -> bool:
        """Whether a notebook that the student may have open changes."""
        notebooks = [path for path in self.changes.new if path.suffix == ".ipynb" and path.is_file()]
        return any(self._is_students(path) for path in notebooks)

    def apply(self) -> list[str]:
        """Back up what will change, change it, and return what to tell.

        Raises:
            CourseError: a file cannot be written; every file is as it was.
        """
        whole, saved = Changes(), 0
        for path in self.changes.new:
            if path.is_file() and self._is_students(path):
                whole.copy(path, self.work.backup / self._name(path))
                saved += 1
        whole.new |= self.changes.new
        whole.apply()
        lines = [*self.done, *(f"look: {line}" for line in self.look), *self.kept]
        if saved:
            lines.append(f"your files as they were before: {self.work.shown(self.work.backup)}/")
        return lines

    def _is_students(self, path: Path) -> bool:
        folder = self.work.folder
        ours = path == folder / NOTE or any(path.is_relative_to(folder / name) for name in (ORIGINALS, KEPT))
        return not ours and path not in self.plain

    def _name(self, path: Path) -> Path:
        """A backup is laid out as the course is, so that answers can be taken from it as from an older course."""
        if path.is_relative_to(self.work.folder):
            return Path("work") / path.relative_to(self.work.folder)
        return path.relative_to(self.work.root)
