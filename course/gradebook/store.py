"""What the judge has found, kept as it comes: a run that was broken off goes on where it was."""

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import CourseError
from ..grading import seeds
from ..judge.marks import Mark, version
from ..paths import read
from ..registry import Exercise


class CannotKeep(CourseError):
    """The results cannot be written any more: grading on would be for nothing."""


class Results:
    """The results of a week, a line each: the seed first, then every mark under its key.

    A line that a killed process has left unfinished is passed over, and its answer is graded again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.Lock()
        self.seed: int | None = None
        self.marks: dict[str, Mark] = {}
        for line in read(path).splitlines() if path.exists() else ():
            try:
                self._take(json.loads(line))
            except (ValueError, TypeError, KeyError):
                continue

    def _take(self, entry: dict[str, Any]) -> None:
        if "seed" in entry and "key" not in entry:
            self.seed = int(entry["seed"])
        else:
            name = entry.pop("key")
            self.marks[name] = Mark(**entry)

    def use_seed(self, seed: int | None) -> int:
        """Return the seed of this week's inputs: the one asked for, else the one kept, else a new one."""
        chosen = seed if seed is not None else self.seed if self.seed is not None else seeds.new()
        if chosen != self.seed:
            self._append({"seed": chosen})
            self.seed = chosen
        return chosen

    def keep(self, key: str, mark: Mark) -> None:
        """Add a mark to the file, at once; several threads may."""
        with self._turn:
            self.marks[key] = mark
            self._append({"key": key, **asdict(mark)})

    def _append(self, entry: Mapping[str, Any]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                # Behind a line that was cut off, a new one begins.
                start = b"\n" if file.tell() and not self._ends_a_line() else b""
                file.write(start + json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        except OSError as error:
            raise CourseError(
                f"{self.path} cannot be written: {error.strerror}; what was kept so far is safe"
            ) from None

    def _ends_a_line(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"


def key(exercise: Exercise, files: Mapping[str, str], seed: int) -> str:
    """Return what a result is kept under: another answer, test, lesson, grader or seed gives another."""
    parts = [exercise.number, version(exercise), str(seed), *(f"{name}\n{files[name]}" for name in sorted(files))]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:24]
