"""Which exercises a browser's tab can check: those whose references pass where there is neither torch nor NumPy."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from importlib.metadata import distribution, packages_distributions
from typing import Any

from packaging.requirements import Requirement

from ..errors import CourseError
from ..grading.implementation import Implementation
from ..grading.runner import run_exercises
from ..registry import Exercise, registry

RUNNERS = ("pytest", "hypothesis")  # what tests are run with, and all that the tab has besides Python


def checkable() -> list[str]:
    """Return the names of the exercises that a tab can check, in the course's order.

    Raises:
        CourseError: they could not be found out.
    """
    said = subprocess.run([sys.executable, "-m", __name__], capture_output=True, text=True, encoding="utf-8")
    if said.returncode:
        raise CourseError(f"which exercises need no torch could not be found out:\n{said.stderr[-2000:]}")
    return json.loads(said.stdout.splitlines()[-1])


def runners() -> list[str]:
    """Return the distributions that running a test takes, each with those that it requires."""
    found: dict[str, None] = {}
    left: list[str] = [*RUNNERS]
    while left:
        name = left.pop()
        if name in found:
            continue
        found[name] = None
        for line in distribution(name).requires or ():
            required = Requirement(line)
            if required.marker is None or required.marker.evaluate({"extra": ""}):
                left.append(_canonical(required.name))
    return sorted(found)


class Absent:
    """A finder that hides every installed package but those of some distributions, as if they were not installed."""

    def __init__(self, kept: Iterable[str]) -> None:
        names = {_canonical(name) for name in kept}
        self._hidden = {
            module for module, of in packages_distributions().items() if names.isdisjoint(map(_canonical, of))
        }

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Raise ModuleNotFoundError for what is hidden; else let the next finder look."""
        if name.partition(".")[0] in self._hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _passing(exercises: Iterable[Exercise]) -> list[str]:
    """The exercises whose references pass, here and now."""
    groups: dict[tuple[str, tuple[str, ...]], list[Exercise]] = defaultdict(list)
    for exercise in exercises:
        groups[exercise.module, exercise.tests].append(exercise)
    names = set[str]()
    for group in groups.values():
        run = run_exercises(group, Implementation())
        for exercise in group:
            of_it = [outcome for outcome in run.outcomes if not set(outcome.targets).isdisjoint(exercise.targets)]
            if of_it and not run.error and all(outcome.passed for outcome in of_it):
                names.add(exercise.name)
    return [exercise.name for exercise in exercises if exercise.name in names]


if __name__ == "__main__":
    import psutil  # noqa: F401  # which limits.py asks for outside of a tab

    sys.meta_path.insert(0, Absent([*runners(), "nanolm-course"]))
    print(json.dumps(_passing(registry())))
