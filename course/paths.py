"""Where things are, and how a file is written: UTF-8, LF, all of it or nothing."""

import re
from pathlib import Path

from nanolm._files import write_text

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = "course/built.json"  # what the last build wrote: every built file and its hash


def work_folder(root: Path = ROOT) -> Path:
    """Return a student's folder where none is named: in the course, or here where that is installed as a wheel."""
    return (Path.cwd() if root.name in ("site-packages", "dist-packages") else root) / "work"


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
