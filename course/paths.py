"""Where things are, and how a file is written: UTF-8, LF, all of it or nothing."""

import re
from pathlib import Path

from nanolm._files import write_text

HOME = Path(__file__).resolve().parents[1]  # where the packages nanolm and course lie
IS_INSTALLED = not (HOME / "pyproject.toml").is_file()  # as a wheel, not as the course's own folder
MARK = ".nanolm-course"  # in a folder that `course start FOLDER` laid out: which version did
MANIFEST = "course/built.json"  # what the last build wrote: every built file and its hash


def laid_out(here: Path) -> Path | None:
    """Return the folder that `course start FOLDER` laid out, this one or the nearest above it; None where none is."""
    return next((folder for folder in (here, *here.parents) if (folder / MARK).is_file()), None)


# The course: notebooks, exercises and tests. An installed package has them where `course start FOLDER` laid them out.
ROOT = (laid_out(Path.cwd()) or HOME) if IS_INSTALLED else HOME


def packaged(name: str, root: Path = ROOT) -> Path:
    """Return a file or folder of the packages nanolm and course: below root, or where they are installed."""
    return (HOME if (root / MARK).is_file() else root) / name


def work_folder(root: Path = ROOT) -> Path:
    """Return a student's folder where none is named."""
    return root / "work"


def as_read_here(message: str, root: Path = ROOT) -> str:
    """Return a message that names the student's copy of a notebook, where there is one, for the released notebook."""

    def place(match: re.Match[str]) -> str:
        return f"work/{match[1]}" if (work_folder(root) / match[1]).is_file() else match[0]

    return re.sub(r"\bnotebooks/([\w./-]+\.ipynb)", place, message)


def read(path: Path) -> str:
    """Return the text of a file, with LF whatever a checkout made of its line ends."""
    return path.read_text(encoding="utf-8").replace("\r\n", "\n")


def write(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
