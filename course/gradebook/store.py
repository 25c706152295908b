"""What the judge has found, kept as it comes: a run that was broken off goes on where it was."""

import hashlib
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..grading import seeds
from ..judge.marks import Mark, version
from ..registry import Exercise
from ..text.json_lines import append, entries


class Results:
    """The results of a week, a line each: the seed first, then every mark under its key.

    A line that a killed process has left unfinished is passed over, and its answer is graded again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.Lock()
        self.seed: int | None = None
        self.marks: dict[str, Mark] = {}
        for entry in entries(path):
            with suppress(TypeError, ValueError, KeyError):  # of another version
                self._take(entry)

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
            append(self.path, {"seed": chosen})
            self.seed = chosen
        return chosen

    def keep(self, key: str, mark: Mark) -> None:
        """Add a mark to the file, at once; several threads may."""
        with self._turn:
            self.marks[key] = mark
            append(self.path, {"key": key, **asdict(mark)})


def key(exercise: Exercise, files: Mapping[str, str], seed: int) -> str:
    """Return what a result is kept under: another answer, test, lesson, grader or seed gives another."""
    parts = [exercise.number, version(exercise), str(seed), *(f"{name}\n{files[name]}" for name in sorted(files))]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:24]
