"""A student's submission of one week, and all the submissions in what was handed in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..paths import ROOT
from ..registry import registry
from .handed import files_of
from .whose import Placed, placed

_NAMELESS = "is in no folder with a student's name: put it into one"
ANSWERED, UNWRITTEN, MISSING, UNREADABLE = "answered", "unwritten", "missing", "unreadable"


@dataclass(frozen=True)
class Submission:
    """What one student handed in for a week, read and not run.

    Attributes:
        student: the name that its folder or file gives.
        source: where it came from, for messages.
        answers: by an exercise's number, the files as that exercise is graded, "speculative/acceptance.py" to its text:
            no other answer is in them, so that none can fail or change because of another.
        states: by number, ANSWERED, UNWRITTEN, MISSING (its cell is gone) or UNREADABLE (it is not Python).
        written: by a question's number, the student's words; empty where there are none.
        notes: what was odd, and how it was read.
        problems: by number, why an exercise cannot be read.
    """

    student: str
    week: int
    source: str
    answers: dict[str, dict[str, str]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unplaced:
    """Something handed in that is graded for nobody.

    Attributes:
        where: it lies.
        why: it cannot be graded.
        may_be_work: whether it may hold answers that are missing elsewhere: a damaged notebook, an archive.
    """

    where: str
    why: str
    may_be_work: bool = True

    def __str__(self) -> str:
        return f"{self.where} {self.why}"


@dataclass(frozen=True)
class Handed:
    """The files of one student, before anything in them is read."""

    student: str
    files: tuple[Placed, ...]

    @property
    def source(self) -> str:
        """Where the first of them lies."""
        return self.files[0].file.where


def sort_by_student(paths: Sequence[Path], root: Path = ROOT) -> tuple[list[Handed], list[Unplaced]]:
    """Return who handed in what, in the order of their names, and what is nobody's.

    Args:
        paths: folders, archives and notebooks.

    Raises:
        CourseError: one of them does not exist.
    """
    rooms = {exercise.module.partition(".")[0] for exercise in registry(root)}
    every = [each for path in paths for each in placed(files_of(path), path, rooms, len(paths) == 1)]
    unplaced = [Unplaced(each.file.where, _NAMELESS) for each in every if not each.student]
    by_name: dict[str, list[Placed]] = {}
    for each in every:
        if each.student:
            by_name.setdefault(each.student, []).append(each)
    handed = []
    for name, files in sorted(by_name.items()):
        numbers = sorted({each.number for each in files})
        for number in numbers:
            mine = tuple(each for each in files if each.number == number)
            handed.append(Handed(f"{name} ({number})" if len(numbers) > 1 and number else name, mine))
    return handed, unplaced
