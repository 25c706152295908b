"""From the files of one student to a submission: each exercise's answer, or why there is none."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath

from ..errors import CourseError
from ..paths import ROOT
from ..registry import Exercise, questions, registry
from ..text.answers import functions, is_stub
from ..text.cells import Cell, grade_id, is_answer_cell, is_answered, recognise
from ..work.collect import start
from ..work.taking import Code, Missing, NotAnswered, take
from .handed import CannotBeRead
from .notebooks import Notebook, read_notebook, released, that_count
from .submission import ANSWERED, MISSING, UNREADABLE, UNWRITTEN, Handed, Submission, Unplaced
from .whose import COPY, Placed, is_notebook

_OURS = ("start", "glossary", "self_test")  # notebooks without exercises
_stub = cache(start)


def read_each(week: int, handed: Iterable[Handed], left: list[Unplaced], root: Path = ROOT) -> Iterator[Submission]:
    """Give the submissions of a week one by one; what could not be placed is added to `left`.

    No file of one student's stops another's reading.
    """
    for each in handed:
        try:
            submission, unplaced = read_submission(each, week, root)
        except Exception as error:  # whatever a file does to our reading of it, the class goes on
            said = str(error) if isinstance(error, CourseError) else f"{type(error).__name__}: {error}"
            submission, unplaced = None, [Unplaced(each.source, f"of {each.student} cannot be read: {said}")]
        left += unplaced
        if submission is not None:
            yield replace(submission, notes=tuple(dict.fromkeys(submission.notes)))


def read_submission(handed: Handed, week: int, root: Path = ROOT) -> tuple[Submission | None, list[Unplaced]]:
    """Return a student's submission of a week, and which files are in none.

    None stands for a student of whom nothing at all could be read: nobody can tell whether that is a submission.
    """
    notebooks, left = _notebooks(handed, root)
    asked = [exercise for exercise in registry(root) if exercise.week == week]
    doubtful = _in_two_folders(notebooks, handed.student)
    if doubtful is not None:
        return None, [doubtful]
    chosen, notes = that_count(notebooks, week)
    modules, others = _modules(handed, asked)
    notes += [f"not read: {name}" for name in others]
    notes += [f"not read: {each.where} {each.why}" for each in left]
    if not (chosen or modules):
        return _nothing(handed, week, asked, notes, left)
    made = Submission(handed.student, week, (chosen[0].placed.file.where if chosen else handed.source))
    code = _joined(chosen)
    for exercise in asked:
        notes += _read(exercise, made, code if chosen else None, modules, root)
    made.written.update(_in_words(chosen, week, root))
    return replace(made, notes=tuple(notes)), []


def _nothing(
    handed: Handed, week: int, asked: Sequence[Exercise], notes: list[str], left: list[Unplaced]
) -> tuple[Submission, list[Unplaced]]:
    """A submission of whose week nothing was found: with a reason where a file could not be read."""
    state = UNREADABLE if left else MISSING
    why = "; ".join(map(str, left)) or f"nothing of week {week} was handed in"
    states = {exercise.number: state for exercise in asked}
    problems = {exercise.number: why for exercise in asked}
    words = {question.number: "" for question in questions() if question.week == week}
    submission = Submission(handed.student, week, handed.source, {}, {}, states, words, (why, *notes), problems)
    return submission, [Unplaced(handed.source, f"of {handed.student}: nothing of week {week} was found"), *left]


def _notebooks(handed: Handed, root: Path) -> tuple[list[Notebook], list[Unplaced]]:
    found, left = [], []
    for each in handed.files:
        name = each.file.name.lower()
        if each.file.problem:
            left.append(Unplaced(each.file.where, each.file.problem))
        elif is_notebook(name) and name.partition(".")[0] not in _OURS:
            try:
                found.append(read_notebook(each, root))
            except CourseError as error:
                left.append(Unplaced(each.file.where, str(error)))
    return found, left


def _in_two_folders(notebooks: Sequence[Notebook], student: str) -> Unplaced | None:
    """Two folders of one name's with the same notebook are two students', for all that anybody knows."""
    folders: dict[str, set[str]] = {}
    for each in notebooks:
        if not each.placed.is_sure and len(each.placed.inside) > 1:
            folders.setdefault(each.lesson, set()).add(each.placed.inside[0])
    for lesson, names in folders.items():
        if len(names) > 1:
            where = notebooks[0].placed.file.where
            stem, listed = PurePosixPath(lesson).stem, " and ".join(sorted(names)[:4])
            return Unplaced(where, f"cannot be told from others: {student} has {stem} in {listed}; name those folders")
    return None


def _modules(handed: Handed, asked: Sequence[Exercise]) -> tuple[dict[str, Placed], list[str]]:
    """The files of exercises/ that were handed in, by their path there, and the names of files that are nothing."""
    files = {exercise.file.lower(): exercise.file for exercise in asked}
    alone = {PurePosixPath(file).name: file for file in files.values()}
    known = {exercise.file.lower() for exercise in registry()}
    found, others = {}, []
    for each in handed.files:
        if is_notebook(each.file.name) or each.file.problem:
            continue
        path = "/".join(each.file.parts[-2:]).lower()
        name = COPY.sub("", each.file.name.lower().removesuffix(".py")) + ".py"
        file = files.get(path) or (alone.get(name) if path not in known else None)
        if file and each.file.name.lower().endswith(".py"):
            found[file] = max(found.get(file, each), each, key=lambda one: one.file.saved)
        elif path not in known and each.file.name != "__init__.py":
            others.append("/".join(each.inside))
    return found, others[:3] + ([f"and {len(others) - 3} other files"] if len(others) > 3 else [])


def _joined(notebooks: Sequence[Notebook]) -> Code:
    """The code of all notebooks of a week, one behind the other."""
    code = Code()
    for each in notebooks:
        code.pieces += each.code.pieces
        code.broken += each.code.broken
        code.notes |= each.code.notes
    return code


def _read(exercise: Exercise, made: Submission, code: Code | None, modules: dict[str, Placed], root: Path) -> list[str]:
    """Put an exercise's answer into a submission; return what was odd about it."""
    notes, problem = [], None
    state, text = MISSING, _stub(exercise.module, root)
    if code is not None:
        try:
            text, notes = take(exercise, code, text, root)
            merged, _ = take(exercise, code, made.files.get(exercise.file, _stub(exercise.module, root)), root)
            made.files[exercise.file] = merged
            state = ANSWERED
        except Missing:
            state = MISSING
        except NotAnswered:
            state = UNWRITTEN
        except CourseError as error:
            state, problem = UNREADABLE, str(error)
    if state != ANSWERED and exercise.file in modules:
        edited, own, why = _edited(exercise, modules[exercise.file])
        if edited != UNWRITTEN or state == MISSING:
            state, text, problem = edited, own, why
            made.files.setdefault(exercise.file, own)
    elif exercise.file in modules and _edited(exercise, modules[exercise.file])[0] == ANSWERED:
        notes.append("is answered in exercises/ as well; the notebook's counts")
    made.states[exercise.number] = state
    made.answers[exercise.number] = {exercise.file: text}
    if problem is not None:
        made.problems[exercise.number] = problem
        notes.append(problem)
    return [f"{exercise.number} {exercise.name}: {note}" for note in notes]


def _edited(exercise: Exercise, each: Placed) -> tuple[str, str, str | None]:
    """The state of an answer in a file of exercises/, the file's text, and why it cannot be read."""
    try:
        text = each.file.load().decode("utf-8-sig").replace("\r\n", "\n")
        there = functions(text, each.file.name)
    except UnicodeDecodeError:
        return UNREADABLE, "", f"{each.file.name} is not in UTF-8"
    except (CourseError, CannotBeRead) as error:
        return UNREADABLE, "", str(error)
    nodes = [there[target] for target in exercise.targets if target in there]
    if not nodes:
        return MISSING, text, None
    return (UNWRITTEN if all(map(is_stub, nodes)) else ANSWERED), text, None


def _in_words(notebooks: Sequence[Notebook], week: int, root: Path) -> dict[str, str]:
    """The words under each written question of a week; the last copy that says something counts."""
    found = {}
    for question in (each for each in questions(root) if each.week == week):
        found[question.number] = ""
        for notebook in notebooks:
            lesson = _words_of(released(root, notebook.lesson))
            if question.slug in lesson:
                found[question.number] = _words(notebook.cells, lesson, question.slug) or found[question.number]
    return found


def _words_of(lesson: dict[str, Cell]) -> dict[str, Cell]:
    """The cells of a lesson that hold questions and answers in words."""
    answers = {key for key, cell in lesson.items() if is_answer_cell(cell) and cell["cell_type"] == "markdown"}
    return {key: cell for key, cell in lesson.items() if key in answers or key.removesuffix("-text") in answers}


def _words(cells: Sequence[Cell], lesson: dict[str, Cell], slug: str) -> str:
    named = [cell for cell in cells if slug in (grade_id(cell), cell.get("id"))]
    if not named:
        text = [cell for cell in cells if cell.get("cell_type") != "code"]
        named = [cell for key, cell in recognise(text, [lesson]) if key == slug]
    said = [cell["source"].strip() for cell in named if is_answered(cell | {"cell_type": "markdown"}, lesson[slug])]
    return said[-1] if said else ""
