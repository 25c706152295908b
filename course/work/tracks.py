"""A student's answers on both tracks: in the copies of the notebooks, and in exercises/."""

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import CourseError
from ..grading.implementation import Implementation, chosen
from ..grading.status import Standing, standings
from ..paths import read
from ..registry import Exercise, Question
from ..text.answers import functions, is_stub, meaning
from ..text.cells import Cell, by_key, is_answered, recognise
from ..text.files import load, parsed, text_of
from .collect import gather
from .layout import Work
from .taking import NotAnswered

NOTEBOOK, EDITOR = "notebook", "editor"


@dataclass
class Track:
    """One track.

    Attributes:
        name: NOTEBOOK or EDITOR.
        implementation: its answers, to be tested.
        meanings: of every function written, what it says, whatever its layout.
        problems: by an exercise's name, why its answer cannot be read.
    """

    name: str
    implementation: Implementation
    meanings: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def count(self, exercise: Exercise) -> int:
        """Return how many of an exercise's functions are written; one that cannot be read counts as written."""
        if exercise.name in self.problems:
            return len(exercise.targets)
        return sum(target in self.meanings for target in exercise.targets)

    def has(self, exercise: Exercise) -> bool:
        """Return whether all of an exercise is written."""
        return self.count(exercise) == len(exercise.targets)

    def agrees(self, other: "Track", exercise: Exercise) -> bool:
        """Return whether two tracks say the same of an exercise."""
        both = [(self.meanings.get(target), other.meanings.get(target)) for target in exercise.targets]
        return all(one is not None and one == two for one, two in both)


def standings_of(exercises: list[Exercise], work: Work) -> tuple[list[Standing], list[str]]:
    """Test the answers in a student's notebooks and in exercises/, both where they differ.

    Returns:
        A standing for each exercise, and remarks on what could not be read.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        in_notebook, remarks = notebooks(work, exercises, Path(folder))
        in_editor = editor(work.root, exercises)
        agreed = {e.name for e in exercises if in_notebook.agrees(in_editor, e)}
        first = _tested(in_notebook, exercises)
        second = _tested(in_editor, [exercise for exercise in exercises if exercise.name not in agreed])
    found = []
    for exercise in exercises:
        one, other = first.get(exercise.name), second.get(exercise.name)
        if one and other:
            found.append(replace(one, other=other))
        elif one and exercise.name in agreed:
            found.append(replace(one, answer=f"{NOTEBOOK} and {EDITOR}, alike"))
        else:
            found.append(one or other or _unwritten(exercise, work, [in_notebook, in_editor]))
    if not (work.folder / "start.ipynb").exists():
        remarks.append(f"there are no notebooks in {work.shown(work.folder)}/ yet: course start puts copies there")
    return found, remarks


def _tested(track: Track, exercises: list[Exercise]) -> dict[str, Standing]:
    """The exercises that a track has, tested; one that cannot be read fails without a test."""
    readable = [e for e in exercises if track.has(e) and e.name not in track.problems]
    unreadable = [e for e in exercises if e.name in track.problems]
    found = [replace(standing, answer=track.name) for standing in standings(readable, track.implementation)]
    found += [Standing(e, [], "", track.name, problem=track.problems[e.name]) for e in unreadable]
    return {standing.exercise.name: standing for standing in found}


def _unwritten(exercise: Exercise, work: Work, tracks: list[Track]) -> Standing:
    lesson = Path(exercise.notebook).relative_to("notebooks").as_posix()
    hint = (
        f"exercise {exercise.number} {exercise.name} is not written yet: answer it in "
        f"{work.shown(work.folder)}/{lesson}, or write it in exercises/{exercise.file} and run: {exercise.command}"
    )
    parts = [(track.name, track.count(exercise)) for track in tracks]
    answer = ", ".join(f"{name}: {count} of {len(exercise.targets)}" for name, count in parts if count)
    return Standing(exercise, [], "", answer, hint)


def editor(root: Path, exercises: list[Exercise]) -> Track:
    """Return the answers in exercises/; none where there is no such folder."""
    folder = root / "exercises"
    track = Track(EDITOR, chosen(str(folder)) if folder.is_dir() else Implementation())
    _read_folder(track, folder, exercises)
    return track


def notebooks(work: Work, exercises: list[Exercise], into: Path) -> tuple[Track, list[str]]:
    """Return the answers in the copies of the notebooks, written to a folder, and what was wrong with a notebook."""
    names = dict.fromkeys(Path(exercise.notebook).relative_to("notebooks").as_posix() for exercise in exercises)
    paths = [work.folder / name for name in names if (work.folder / name).is_file()]
    found = gather(paths, into, work.root)
    track = Track(NOTEBOOK, chosen(str(into)))
    wrong = [f"{work.shown(each.notebook)} {each.problem}" for each in found if each.exercise is None]
    for each in found:
        if each.exercise is not None and each.problem is not None and not isinstance(each.problem, NotAnswered):
            track.problems[each.exercise.name] = f"{work.shown(each.notebook)}, {each.exercise.name}: {each.problem}"
    _read_folder(track, into, exercises)
    return track, wrong


def _read_folder(track: Track, folder: Path, exercises: list[Exercise]) -> None:
    for file in dict.fromkeys(exercise.file for exercise in exercises):
        path = folder / file
        asked = [exercise for exercise in exercises if exercise.file == file]
        if not path.is_file():
            continue
        try:
            written = {
                name: meaning(node) for name, node in functions(text_of(path), file).items() if not is_stub(node)
            }
        except CourseError as error:
            said = str(error) if str(path) in str(error) else f"{folder.name}/{error}"
            track.problems |= {exercise.name: said for exercise in asked}
            continue
        targets = {target for exercise in asked for target in exercise.targets}
        track.meanings |= {name: text for name, text in written.items() if name in targets}


def in_words(work: Work, questions: list[Question]) -> dict[Question, bool]:
    """Return the questions answered in words, and whether each has an answer in the copies of the notebooks."""
    lessons = {name: path for name, path in work.lessons.items() if path.suffix == ".ipynb"}
    found: set[str] = set()
    for name, path in lessons.items():
        try:
            cells, lesson = load(work.folder / name)["cells"], by_key(parsed(read(path))["cells"])
        except CourseError:
            continue
        asked = {question.slug: question.number for question in questions if question.slug in lesson}
        found |= _answered(cells, lesson, asked)
    return {question: question.number in found for question in questions}


def _answered(cells: list[Cell], lesson: dict[str, Cell], asked: dict[str, str]) -> set[str]:
    pairs = recognise(cells, [lesson]) if asked else []
    return {asked[key] for key, cell in pairs if key in asked and is_answered(cell, lesson[key])}
