"""The folder of a student's work, `work/`: one layout for the lab, a wheel, a release and a hand-in.

start.ipynb, weekNN_name/weekNN_name.ipynb   copies of notebooks/, the student's to answer
.course.json                                 which version of each notebook a copy came from
.originals/                                  those notebooks as they came, to tell what the student changed
backup/DATE/                                 files as they were before an update or a reset
kept/DATE/                                   answers that have no place in the course any more
"""

import hashlib
import json
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ..errors import CourseError
from ..paths import MANIFEST, ROOT, packaged, read, work_folder

NOTE, ORIGINALS, BACKUP, KEPT = ".course.json", ".originals", "backup", "kept"


@dataclass(frozen=True)
class Work:
    """A student's folder and the course it belongs to.

    Attributes:
        folder: where the copies are.
        root: the course.
        stamp: the date and time that its backups and kept files of this run are filed under.
    """

    folder: Path
    root: Path
    stamp: str

    @classmethod
    def at(cls, folder: Path | None = None, root: Path = ROOT) -> "Work":
        """Return the folder; if none is named, `work/` in the course.

        Nothing is made.

        Raises:
            CourseError: the course has no notebooks, or the folder is a file, one of the course's own, or closed to
                writing.
        """
        if folder is None:
            folder = work_folder(root)
        if not (root / "notebooks").is_dir():
            raise CourseError(f"there are no notebooks in {root}: course start FOLDER lays out a folder that has them")
        _require_usable(folder, root)
        return cls(folder, root, _stamp(folder))

    @property
    def lessons(self) -> dict[str, Path]:
        """Every file of notebooks/ by its path from there, with forward slashes; hidden folders left out."""
        source = self.root / "notebooks"
        names = [path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file()]
        return {name.as_posix(): source / name for name in names if not any(part[0] == "." for part in name.parts)}

    @property
    def backup(self) -> Path:
        """Where this run puts files before it changes them."""
        return self.folder / BACKUP / self.stamp

    @property
    def kept(self) -> Path:
        """Where this run puts answers that have no place."""
        return self.folder / KEPT / self.stamp

    def original(self, lesson: str) -> str | None:
        """Return the text of the notebook that a copy came from; None if that is not known."""
        path, note = self.folder / ORIGINALS / lesson, self.note()
        if not path.is_file():
            return None
        text = read(path)
        return text if note.get(lesson) == version_of(text) else None

    def note(self) -> dict[str, str]:
        """Return the version of every copy by its path; empty where the note is missing or damaged."""
        try:
            return dict(json.loads(read(self.folder / NOTE))["notebooks"])
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def noted(self, originals: dict[str, str]) -> dict[Path, str]:
        """Return the files that say where copies came from, with these texts of notebooks taken in."""
        versions = self.note() | {lesson: version_of(text) for lesson, text in originals.items()}
        listing = json.dumps({"notebooks": dict(sorted(versions.items()))}, indent=1) + "\n"
        texts = {self.folder / ORIGINALS / lesson: text for lesson, text in originals.items()}
        return texts | {self.folder / NOTE: listing}

    def is_released(self, lesson: str, text: str) -> bool:
        """Return whether a text is the lesson as it was built, with nothing of a student's in it.

        Where nothing is known of the build, it is taken for that.
        """
        manifest = packaged(MANIFEST, self.root)
        built = json.loads(read(manifest)) if manifest.is_file() else {}
        return built.get(f"notebooks/{lesson}") in (None, version_of(text))

    def shown(self, path: Path) -> str:
        """Return a path as a student would type it from the course's folder, with forward slashes."""
        for base in (Path.cwd(), self.root):
            if path.is_relative_to(base):
                return path.relative_to(base).as_posix()
        return path.as_posix()


def version_of(text: str) -> str:
    """Return the version of a file: the SHA-256 of its text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _require_usable(folder: Path, root: Path) -> None:
    built = ("notebooks", "exercises", "solutions", "course", "nanolm", "tests")
    inside = folder.resolve()
    if inside == root.resolve() or any(inside.is_relative_to((root / name).resolve()) for name in built):
        raise CourseError(f"{folder} is a folder of the course itself; name another for your work")
    nearest = next(path for path in (inside, *inside.parents) if path.exists())
    if not nearest.is_dir():
        raise CourseError(f"{nearest} is a file; name a folder for your work")
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise CourseError(f"{nearest} cannot be written to: {error.strerror}") from None


def _stamp(folder: Path) -> str:
    now = stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    count = 1
    while any((folder / kind / stamp).exists() for kind in (BACKUP, KEPT)):
        count += 1
        stamp = f"{now}_{count}"
    return stamp
