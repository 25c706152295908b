"""Results kept as they come, a line of JSON each, so that a run that is broken off goes on where it was."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import CourseError
from ..paths import read


class CannotKeep(CourseError):
    """Results cannot be written any more: to go on would be for nothing."""


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what a file holds, oldest first; a line that an interruption has cut is passed over. No file: nothing."""
    for line in read(path).splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def append(path: Path, entry: Mapping[str, Any]) -> None:
    """Add an entry at once, behind a cut line on a line of its own.

    Raises:
        CannotKeep: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            start = b""
            if file.seek(0, 2):
                file.seek(-1, 2)
                start = b"" if file.read(1) == b"\n" else b"\n"
            file.write(start + json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    except OSError as error:
        raise CannotKeep(f"{path} cannot be written: {error.strerror}; what was kept so far is safe") from None
