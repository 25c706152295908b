"""Grade a week: read what was handed in, ask the judge, show what would change, write it down."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import CourseError
from ..intake.reading import read_each
from ..intake.submission import Submission, Unplaced, sort_by_student
from ..judge.marks import MISSING, UNWRITTEN, Mark
from ..paths import ROOT
from ..registry import Exercise, registry
from .accepted import Accepted, Change
from .book import Book, only_writer
from .feedback import write_feedback
from .grading import Graded, Judging, graded
from .marking import enter, read_marking, write_marking
from .names import identity
from .store import Results
from .table import Row, write_table

TO_MARK, MARKED = "to mark", "marked"


@dataclass
class Report:
    """What a run has done.

    Attributes:
        graded: every student's marks.
        unplaced: what was handed in and graded for nobody.
        changes: marks that stood, and are other ones now.
        written: whether the changed marks were written too.
        to_mark: answers in words that wait for a person.
    """

    seed: int
    graded: list[Graded]
    unplaced: list[Unplaced]
    changes: list[Change] = field(default_factory=list)
    written: bool = True
    to_mark: int = 0

    @property
    def failures(self) -> list[str]:
        """What the judge could not be asked, a line each."""
        return [
            f"{one.submission.student}, {number}: {why}" for one in self.graded for number, why in one.failures.items()
        ]


@dataclass(frozen=True)
class Places:
    """Where a week's files lie in the folder of private things."""

    folder: Path
    week: int

    @property
    def results(self) -> Path:
        """What the judge has found, as it came."""
        return self.folder / "results" / f"week{self.week:02}.jsonl"

    @property
    def accepted(self) -> Path:
        """The marks that stand."""
        return self.folder / "marks" / f"week{self.week:02}.json"

    @property
    def feedback(self) -> Path:
        """A folder a student."""
        return self.folder / "reports"


def exercises_of(week: int) -> list[Exercise]:
    """Return the exercises of a week; raise CourseError where there is no such week."""
    found = [exercise for exercise in registry() if exercise.week == week]
    if not found:
        weeks = sorted({exercise.week for exercise in registry()})
        raise CourseError(f"week is {week}; there are weeks {weeks[0]} to {weeks[-1]}")
    return found


def require(week: int, paths: Sequence[Path], tables: Sequence[Path | None] = ()) -> None:
    """Raise CourseError where there is no such week, nothing at one of the paths, or a table that cannot be one."""
    exercises_of(week)
    for table in tables:
        if table is not None and (table.is_dir() or (table.parent.exists() and not table.parent.is_dir())):
            raise CourseError(f"{table} cannot be written: name a file in a folder")
    for path in paths:
        if not path.exists():
            raise CourseError(f"there is no {path} to grade")


def grade(
    week: int,
    paths: Sequence[Path],
    table: Path | None,
    judge: Judging,
    workers: int = 1,
    folder: Path = ROOT / "grading",
    seed: int | None = None,
    yes: bool = False,
    marking: Path | None = None,
    begin: Callable[[int], object] = lambda number: None,
    tell: Callable[[Submission], object] = lambda submission: None,
) -> Report:
    """Grade what was handed in for a week, and write gradebook, table and feedback.

    Args:
        table: the CSV file of all marks.
        seed: of the inputs; None: the one that this week has been graded with, at first a new one.
        yes: write marks that differ from those that stand, too.
        marking: a table to be written for marking answers in words.
        begin: called with the number of students; `tell` with each who is done.

    Raises:
        CourseError: no such week, no such path, or another process is grading into the folder.
    """
    exercises, places = exercises_of(week), Places(folder, week)
    handed, unplaced = sort_by_student(paths)
    begin(len(handed))
    with only_writer(folder), Book(folder, week) as book:
        book.register()
        results, left = Results(places.results), list[Unplaced]()
        chosen = results.use_seed(seed)
        found = graded(read_each(week, handed, left), exercises, judge, results, chosen, workers, tell)
        accepted = Accepted(places.accepted)
        changes = accepted.changes(found)
        report = Report(chosen, found, [*unplaced, *left], changes, yes or not changes)
        accepted.take(found, changes, yes)
        for one in found:
            marks = accepted.marks[one.submission.student]
            book.write(one.submission, marks)
            write_feedback(places.feedback, week, one.submission, exercises, marks)
        if marking is not None:
            report.to_mark = write_marking(marking, book, [one.submission for one in found])
        if table is not None:
            write_table(table, rows(book, accepted))
    return report


def take_marks(week: int, marks: Path, table: Path | None, folder: Path = ROOT / "grading") -> int:
    """Enter the marks for answers in words that stand in a table; return how many. Raise CourseError as it does."""
    exercises_of(week)
    with only_writer(folder), Book(folder, week) as book:
        book.register()
        given = read_marking(marks, book)
        enter(book, given)
        if table is not None:
            write_table(table, rows(book, Accepted(Places(folder, week).accepted)))
    return len(given)


def rows(book: Book, accepted: Accepted) -> list[Row]:
    """Return a row for each student of the gradebook and each exercise and question of the week.

    Points are those that stand in the gradebook, so what a person has given there counts.
    """
    names = {identity(name): name for name in accepted.marks}
    made = []
    for student in sorted({*book.students(), *names}):
        name = names.get(student, student)
        made += _of_exercises(book, student, name, accepted)
        made += _of_questions(book, student, name, accepted)
    return made


def _of_exercises(book: Book, student: str, name: str, accepted: Accepted) -> list[Row]:
    made = []
    for exercise in book.exercises:
        mark = accepted.marks.get(name, {}).get(exercise.number)
        if mark is None:
            state = "not graded" if name in accepted.marks else MISSING
            points = None if name in accepted.marks else 0.0
            made.append(Row(name, book.week, exercise.name, points, exercise.points, state))
            continue
        notebook = exercise.notebook.rpartition("/")[2].removesuffix(".ipynb")
        entry = book.grade(f"{exercise.slug}-check", notebook, student)
        state = MARKED if entry.manual_score is not None else mark.state
        made.append(Row(name, book.week, exercise.name, entry.score, exercise.points, state, mark.version))
    return made


def _of_questions(book: Book, student: str, name: str, accepted: Accepted) -> list[Row]:
    made = []
    for question in book.questions:
        notebook, points, state = book.notebook_of(question), 0.0, MISSING
        if name in accepted.marks:
            entry = book.grade(question.slug, notebook, student)
            waits = entry.needs_manual_grade and entry.manual_score is None
            state = MARKED if entry.manual_score is not None else TO_MARK if waits else UNWRITTEN
            if state == UNWRITTEN and _is_absent(book, notebook, accepted.marks[name]):
                state = MISSING
            points = None if waits else entry.score
        made.append(Row(name, book.week, question.name, points, question.points, state))
    return made


def _is_absent(book: Book, notebook: str, marks: Mapping[str, Mark]) -> bool:
    """Whether a student has not handed a notebook in at all."""
    there = [marks.get(e.number) for e in book.exercises if e.notebook.endswith(f"/{notebook}.ipynb")]
    return all(mark is None or mark.state == MISSING for mark in there)
