"""The marks that stand: what was written last for each student, and what a new run would change of it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..judge.marks import Mark
from ..paths import read, write
from .grading import Graded


@dataclass(frozen=True)
class Change:
    """A mark that stands, and another that would take its place."""

    student: str
    old: Mark
    new: Mark

    def __str__(self) -> str:
        why = "the tests or the lesson are other ones" if self.old.version != self.new.version else "the answer is"
        why = "the inputs are" if self.old.version == self.new.version and self.old.seed != self.new.seed else why
        old, new = (f"{mark.points:g} ({mark.state})" for mark in (self.old, self.new))
        return f"{self.student}, {self.new.exercise}: {old} would become {new}: {why}"


class Accepted:
    """The marks of a week that stand, by student and exercise, in one file that is written whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        entries = json.loads(read(path)) if path.exists() else {}
        self.marks = {name: {n: Mark(**mark) for n, mark in marks.items()} for name, marks in entries.items()}

    def changes(self, graded: Sequence[Graded]) -> list[Change]:
        """Return the marks that would be other ones: in points or in state."""
        found = []
        for one in graded:
            student = one.submission.student
            for number, new in one.marks.items():
                old = self.marks.get(student, {}).get(number)
                if old is not None and (old.points, old.state) != (new.points, new.state):
                    found.append(Change(student, old, new))
        return found

    def take(self, graded: Sequence[Graded], changes: Sequence[Change], yes: bool) -> None:
        """Let the new marks stand, and those that change only if `yes`."""
        kept = {} if yes else {(change.student, change.new.exercise): change.old for change in changes}
        for one in graded:
            student = one.submission.student
            marks = {number: kept.get((student, number), mark) for number, mark in one.marks.items()}
            self.marks[student] = self.marks.get(student, {}) | marks
        # By number, not as the judge came to them: a run that was ended and begun again leaves the same file.
        entries = {
            name: {n: asdict(marks[n]) for n in sorted(marks, key=_by_number)}
            for name, marks in sorted(self.marks.items())
        }
        write(self.path, json.dumps(entries, indent=0, ensure_ascii=False) + "\n")


def _by_number(number: str) -> tuple[int, ...]:
    return tuple(map(int, number.split(".")))
