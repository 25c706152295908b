"""The cases of the audit: planted mistakes and right answers in other styles, each as a student would hand it in.

A planted mistake (tests/planted) is one replacement in the engine's file, and is graded as that file in a folder of
answers. A right answer (tests/right) is the code of one cell, and is graded in a notebook's namespace, after the set-up
cell of its lesson. So both tracks are audited.
"""

import json
import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import CourseError
from ..grading.implementation import Implementation, Notebook, chosen
from ..grading.outcomes import targets_of
from ..grading.runner import TESTS, collected
from ..paths import ROOT, read, write
from ..registry import Exercise, registry

PLANTED, RIGHT = TESTS / "planted", TESTS / "right"
_CELL = re.compile(r"(?m)^# %% (.+)\n")
_SET_UP = "# Set-up for the exercises"


@dataclass(frozen=True)
class Mistake:
    """One replacement in the engine that makes an answer wrong.

    Attributes:
        name: a few words, unique.
        file: in nanolm/, "speculative/acceptance.py".
        old, new: what stands there once, and what stands there instead.
        test: the test function meant for it.
        says: a part of the message that names the mistake.
    """

    name: str
    file: str
    old: str
    new: str
    test: str
    says: str

    @property
    def text(self) -> str:
        """The whole file with the mistake.

        Raises:
            CourseError: `old` does not stand there exactly once.
        """
        text = read(ROOT / "nanolm" / self.file)
        if text.count(self.old) != 1:
            raise CourseError(f"{self.name}: {self.old!r} occurs {text.count(self.old)} times in nanolm/{self.file}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Right:
    """A right answer in a style of its own: the code of a cell that defines what the exercise asks."""

    name: str
    text: str


@cache
def mistakes() -> tuple[Mistake, ...]:
    """Return every planted mistake, those in parts of the engine that nobody is asked to write among them."""
    names = ("name", "file", "old", "new", "test", "says")
    found = [entry for path in sorted(PLANTED.glob("week*.py")) for entry in runpy.run_path(str(path))["MISTAKES"]]
    return tuple(Mistake(**{name: entry[name] for name in names}) for entry in found)


@cache
def targets_by_test() -> dict[str, set[str]]:
    """Return what each graded test grades, by the name of its function: what pytest itself reads off the marks."""
    found: dict[str, set[str]] = {}
    for item in collected(registry()):
        found.setdefault(getattr(item, "originalname", item.name), set()).update(targets_of(item))
    return found


def mistakes_in(exercise: Exercise) -> list[Mistake]:
    """Return the planted mistakes that a student's answer to this exercise can have."""
    graded = targets_by_test()
    return [
        mistake
        for mistake in mistakes()
        if mistake.file == exercise.file and not graded.get(mistake.test, set()).isdisjoint(exercise.targets)
    ]


def right_file(exercise: Exercise) -> Path:
    """Return where the right answers to an exercise stand."""
    return RIGHT / f"week{exercise.week:02}" / f"{exercise.name.replace('.', '_')}.py"


def right_in(exercise: Exercise) -> list[Right]:
    """Return the right answers to an exercise, a cell each; none where there is no file."""
    path = right_file(exercise)
    if not path.exists():
        return []
    _, *parts = _CELL.split(read(path))
    return [Right(name.strip(), text) for name, text in zip(parts[::2], parts[1::2], strict=True)]


@cache
def _set_up(notebook: str) -> str:
    cells = json.loads(read(ROOT / notebook))["cells"]
    return next(text for cell in cells if (text := "".join(cell["source"])).startswith(_SET_UP))


def notebook_of(exercise: Exercise, answer: Right) -> Implementation:
    """Return the answer as it stands in the lesson's notebook, behind the set-up cell."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for part, text in ((exercise.notebook, _set_up(exercise.notebook)), (answer.name, answer.text)):
        exec(compile(text, f"<{part}>", "exec"), space)
    return Notebook(space)


@contextmanager
def folder_of(exercise: Exercise, text: str) -> Iterator[Implementation]:
    """Give the answer as a student's folder with this one file; what else is asked of them comes from the engine."""
    with TemporaryDirectory() as folder:
        write(Path(folder) / exercise.file, text)
        implementation = chosen(folder)
        try:
            yield implementation
        finally:
            package = getattr(implementation, "package", "")
            for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
                del sys.modules[name]
