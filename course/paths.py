"""Where things are, and how a file is written: UTF-8, LF, all of it or nothing."""

from pathlib import Path

from nanolm._files import write_text

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = "course/built.json"  # what the last build wrote: every built file and its hash


def read(path: Path) -> str:
    """Return the text of a file, with LF whatever a checkout made of its line ends."""
    return path.read_text(encoding="utf-8").replace("\r\n", "\n")


def write(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
