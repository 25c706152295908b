"""From the files of one student to a submission: each exercise's answer, or why there is none."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath

from ..errors import CourseError
from ..paths import ROOT
from ..registry import Exercise, questions, registry
from ..text.answers import functions, is_stub
from ..text.cells import Cell, grade_id, is_answer_cell, is_answered, recognise
from ..text.source import defined_names
from ..work.collect import start
from ..work.taking import Code, Missing, NotAnswered, take
from .handed import EMPTY, CannotBeRead
from .notebooks import Notebook, NothingOfOurs, is_script, read_notebook, released, that_count
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
            asked = [exercise for exercise in registry(root) if exercise.week == week]
            submission, unplaced = _nothing(each, week, asked, [], [Unplaced(each.source, f"cannot be read: {said}")])
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
    edited = _modules(handed, asked)
    notes += [f"not read: {name}" for name in _some(edited.others)]
    notes += [f"not read: {each.where} {each.why}" for each in left]
    if not (chosen or edited.asked):
        return _nothing(handed, week, asked, notes, left)
    made = Submission(handed.student, week, (chosen[0].placed.file.where if chosen else handed.source))
    code = _joined(chosen)
    for exercise in asked:
        notes += _read(exercise, made, code if chosen else None, edited, root)
        damaged = next((each for each in left if each.may_be_work), None)
        if damaged is not None and made.states[exercise.number] == MISSING:  # it may have been in there
            made.states[exercise.number], made.problems[exercise.number] = UNREADABLE, str(damaged)
    made.written.update(_in_words(chosen, week, root))
    return replace(made, notes=tuple(notes)), []


def _nothing(
    handed: Handed, week: int, asked: Sequence[Exercise], notes: list[str], left: list[Unplaced]
) -> tuple[Submission, list[Unplaced]]:
    """A submission of whose week nothing was found: with a reason where a file could not be read."""
    state = UNREADABLE if any(each.may_be_work for each in left) else MISSING
    why = "; ".join(map(str, left)) or f"nothing of week {week} was handed in"
    states = {exercise.number: state for exercise in asked}
    problems = {exercise.number: why for exercise in asked}
    words = {question.number: "" for question in questions() if question.week == week}
    submission = Submission(handed.student, week, handed.source, {}, states, words, (why, *notes), problems)
    return submission, [Unplaced(handed.source, f"of {handed.student}: nothing of week {week} was found"), *left]


def _notebooks(handed: Handed, root: Path) -> tuple[list[Notebook], list[Unplaced]]:
    found, left = [], []
    for each in handed.files:
        name = each.file.name.lower()
        if each.file.problem:
            left += [Unplaced(each.file.where, each.file.problem)] if each.file.problem != EMPTY else []
        elif (is_notebook(name) or is_script(name, root)) and name.partition(".")[0] not in _OURS:
            try:
                found.append(read_notebook(each, root))
            except CourseError as error:
                is_other = isinstance(error, NothingOfOurs)
                left.append(Unplaced(each.file.where, str(error), may_be_work=not is_other))
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


@dataclass
class _Edited:
    """The files of exercises/ that were handed in.

    Attributes:
        asked: those with exercises of the week, by their path in exercises/.
        own: the student's own beside them, likewise.
        others: the names of files that are neither.
    """

    asked: dict[str, Placed] = field(default_factory=dict)
    own: dict[str, Placed] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def _modules(handed: Handed, asked: Sequence[Exercise]) -> _Edited:
    files = {exercise.file.lower(): exercise.file for exercise in asked}
    alone = {PurePosixPath(file).name: file for file in files.values()}
    known = {exercise.file.lower() for exercise in registry()}
    rooms = {file.partition("/")[0] for file in known}
    found = _Edited()
    for each in handed.files:
        if is_notebook(each.file.name) or is_script(each.file.name) or each.file.problem:
            continue
        path = "/".join(each.file.parts[-2:])
        name = re.sub(r"-\d+$", "", COPY.sub("", each.file.name.lower().removesuffix(".py"))) + ".py"
        is_own = path.partition("/")[0] in rooms and path not in known
        file = files.get(path.lower()) or (alone.get(name) if path.lower() not in known and not is_own else None)
        if not each.file.name.lower().endswith(".py") or not (file or is_own or path.lower() in known):
            found.others.append("/".join(each.inside))
        elif file:
            found.asked[file] = max(found.asked.get(file, each), each, key=lambda one: one.file.saved)
        elif is_own and each.file.name != "__init__.py":
            found.own[path] = each
    return found


def _some(names: Sequence[str]) -> list[str]:
    return [*names[:3], *([f"and {len(names) - 3} other files"] if len(names) > 3 else [])]


def _joined(notebooks: Sequence[Notebook]) -> Code:
    """The code of all notebooks of a week, one behind the other."""
    code = Code()
    for each in notebooks:
        code.pieces += each.code.pieces
        code.broken += each.code.broken
        code.notes |= each.code.notes
    return code


def _read(exercise: Exercise, made: Submission, code: Code | None, edited: _Edited, root: Path) -> list[str]:
    """Put an exercise's answer into a submission; return what was odd about it."""
    state, files, problem, notes = _of_notebook(exercise, code, root)
    if exercise.file in edited.asked:
        other, theirs, why = _of_editor(exercise, edited)
        if state == ANSWERED:
            notes += ["is answered in exercises/ as well; the notebook's counts"] if other == ANSWERED else []
        elif other != UNWRITTEN or state == MISSING:
            state, files, problem = other, theirs, why
    made.states[exercise.number], made.answers[exercise.number] = state, files
    if problem is not None:
        made.problems[exercise.number] = problem
        notes.append(problem)
    return [f"{exercise.number} {exercise.name}: {note}" for note in notes]


def _of_notebook(
    exercise: Exercise, code: Code | None, root: Path
) -> tuple[str, dict[str, str], str | None, list[str]]:
    """An answer in the notebooks: its state, its files, why it cannot be read, and what was odd."""
    empty = _stub(exercise.module, root)
    try:
        text, notes = take(exercise, Code() if code is None else code, empty, root)
        return ANSWERED, {exercise.file: text}, None, notes
    except Missing:
        return MISSING, {exercise.file: empty}, None, []
    except NotAnswered:
        return UNWRITTEN, {exercise.file: empty}, None, []
    except CourseError as error:
        return UNREADABLE, {exercise.file: empty}, str(error), []


def _of_editor(exercise: Exercise, edited: _Edited) -> tuple[str, dict[str, str], str | None]:
    """An answer in a file of exercises/: its state, its files, and why it cannot be read."""
    try:
        text = _text_of(edited.asked[exercise.file])
        there = functions(text, exercise.file)
        own = {name: _text_of(each) for name, each in edited.own.items()}
    except (CourseError, CannotBeRead) as error:
        return UNREADABLE, {}, str(error)
    nodes = [there[target] for target in exercise.targets if target in there]
    if not nodes and not any(target.split(".")[0] in defined_names(text) for target in exercise.targets):
        return MISSING, {exercise.file: text}, None
    is_empty = bool(nodes) and all(map(is_stub, nodes))
    return (UNWRITTEN if is_empty else ANSWERED), {exercise.file: text, **own}, None


def _text_of(each: Placed) -> str:
    try:
        return each.file.load().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise CourseError(f"{each.file.name} is not in UTF-8: save it as that") from None


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
