"""The list of exercises, `course/registry.json`: built from the lessons, read by everything else."""

import json
import re
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from .errors import CourseError
from .paths import ROOT, as_read_here, packaged, read

FILE = Path("course/registry.json")


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Attributes:
        number: week.order, "4.1".
        name: what `check` calls it, "residual_distribution" or "KVCache.update".
        module: the engine's module, "speculative.acceptance".
        targets: the functions or methods asked, "residual_distribution" or "KVCache.update".
        notebook: the released notebook, a path from the root with forward slashes.
        tests: the files with its tests, likewise.
    """

    number: str
    name: str
    module: str
    targets: tuple[str, ...]
    notebook: str
    points: int
    minutes: int
    difficulty: int
    tested: str
    why: str
    hint: str
    tests: tuple[str, ...] = ()

    @property
    def week(self) -> int:
        """The week it belongs to."""
        return int(self.number.split(".")[0])

    @property
    def file(self) -> str:
        """The engine's file, from the folder of nanolm or of answers: "speculative/acceptance.py"."""
        return f"{self.module.replace('.', '/')}.py"

    @property
    def command(self) -> str:
        """What an editor user types to test this exercise: the tests that `check` runs."""
        return " ".join(["NANOLM_IMPL=exercises python -m pytest", *self.tests, "--exercise", self.name])

    @property
    def slug(self) -> str:
        """The name of its cells in a notebook."""
        return self.name.replace(".", "-")

    @property
    def not_yet_written(self) -> str:
        """One line: which exercise this is, where it is explained on this machine, where it goes, how it is tested."""
        return as_read_here(self.stub_message)

    @property
    def stub_message(self) -> str:
        """The same as it stands in a stub: on every machine it names the released notebook."""
        return (
            f"exercise {self.number} {self.name} is not written yet: read {self.notebook}, "
            f"write it in exercises/{self.file}, then run: {self.command}"
        )


@dataclass(frozen=True)
class Question:
    """A question answered in words and graded by hand: its number, its name, its week, points and minutes."""

    number: str
    name: str
    week: int
    points: int
    minutes: int

    @property
    def slug(self) -> str:
        """The name of its cell in a notebook."""
        return re.sub(r"[^A-Za-z0-9_]+", "-", self.name)


def to_json(exercises: list[Exercise], written: list[dict]) -> str:
    """Return the text of registry.json."""
    listing = {"exercises": [asdict(exercise) for exercise in exercises], "written": written}
    return json.dumps(listing, indent=1, ensure_ascii=False) + "\n"


@cache
def registry(root: Path = ROOT) -> list[Exercise]:
    """Return all exercises in the order of the course; raise CourseError if the course was never built."""
    return [_exercise(entry) for entry in _listing(root)["exercises"]]


def _exercise(entry: dict[str, Any]) -> Exercise:
    lists: dict[str, Any] = {name: tuple(entry[name]) for name in ("targets", "tests")}
    return Exercise(**entry | lists)


def questions(root: Path = ROOT) -> list[Question]:
    """Return all questions answered in words, in the order of the course; raise CourseError if it was never built."""
    names = ("number", "name", "week", "points", "minutes")
    return [Question(**{name: entry[name] for name in names}) for entry in _listing(root)["written"]]


def _listing(root: Path) -> dict[str, list[dict[str, Any]]]:
    path = packaged(FILE.as_posix(), root)
    if not path.exists():
        raise CourseError(f"{FILE.as_posix()} is missing; `course build` makes it")
    return json.loads(read(path))


@cache
def homes(root: Path = ROOT) -> dict[str, str]:
    """Return the engine's module of every function and method asked: "KVCache.update" to "cache.contiguous"."""
    return {target: exercise.module for exercise in registry(root) for target in exercise.targets}


def find(name: str, exercises: list[Exercise] | None = None) -> Exercise:
    """Return the exercise with a name or number; raise CourseError with the nearest names otherwise."""
    exercises = registry() if exercises is None else exercises
    by_key: dict[str, Exercise] = {}
    for exercise in exercises:
        for key in (exercise.number, exercise.name, *exercise.targets):
            by_key.setdefault(key, exercise)
    if name in by_key:
        return by_key[name]
    names = [exercise.name for exercise in exercises]
    near = get_close_matches(str(name), by_key, n=3)
    offer = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
    raise CourseError(f"there is no exercise {name!r}; {offer}")
