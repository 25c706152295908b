"""From a lesson to its solution notebook: an exercise becomes text, an answer cell and a locked check."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ..errors import CourseError
from ..registry import Exercise
from ..text.cells import digest
from ..text.source import Module, body_span, first_line, free_names, last_line, origin, path_of
from .lesson import BEGIN, END, Cell, ExerciseCell, Lesson, WrittenCell
from .session import Session, definition, draws, set_up
from .words import LEGEND, Word, words_cell

# Code that nobody answers and nobody is graded by. nbgrader passes over it.
LAB = "lab"
HIDDEN = "hide-input"  # what a book folds; a notebook folds by its own metadata
STEPS = re.compile(r" // (?=(?:[^`]*`[^`]*`)*[^`]*$)")  # in a hint, outside code: what follows is folded once more
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def to_text(notebook) -> str:
    """Return a notebook as the text of its file, the same for the same content."""
    # The library annotates version as what it is by default.
    return nbformat.writes(notebook, version=4) + "\n"  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Origin:
    """Where a notebook's cell comes from: a lesson's cell, and its part in it."""

    cell: Cell | ExerciseCell | WrittenCell | None  # None: the build's own, set-up or words
    part: str  # "whole", "text", "answer" or "check"


def solution_notebook(
    lesson: Lesson, modules: dict[str, Module], exercises: list[Exercise], words: Sequence[Word] = ()
):
    """Return the notebook with every answer in it, each between the markers that nbgrader cuts out.

    Args:
        words: those of all weeks; the ones of earlier weeks that the lesson uses stand folded behind its legend.

    Raises:
        CourseError: two exercises of one name, a name that is not in the module, code that is not Python.
    """
    cells = [cell for cell, _ in solution_cells(lesson, modules, exercises, words)]
    return new_notebook(cells=cells, metadata=METADATA)


def solution_cells(
    lesson: Lesson, modules: dict[str, Module], exercises: list[Exercise], words: Sequence[Word] = ()
) -> list[tuple]:
    """Return the solution notebook's cells, each with its Origin; raise CourseError as solution_notebook does."""
    numbers = {task.index: number for number, task in lesson.tasks}
    by_number = {exercise.number: exercise for exercise in exercises}
    pairs, origins, session = [], {}, Session(lesson, modules)
    for cell in lesson.cells:
        if isinstance(cell, ExerciseCell):
            _refuse_other_meanings(cell, modules[cell.module], origins, lesson)
            made = _exercise_cells(cell, by_number[numbers[cell.index]], modules[cell.module])
        elif isinstance(cell, WrittenCell):
            made = _written_cells(cell, numbers[cell.index])
        else:
            made = [_lab_cell(cell, session, lesson) if cell.kind == "code" else plain_cell(cell)]
        if made[0].cell_type == "markdown":
            session.read(made[0].source)
        parts = ("text", "answer", "check") if len(made) > 1 else ("whole",)
        pairs += [(new, Origin(cell, part)) for new, part in zip(made, parts, strict=False)]
        if made[0].cell_type == "markdown" and LEGEND in made[0].source and (text := words_cell(lesson, words)):
            pairs.append((new_markdown_cell(text), Origin(None, "whole")))
    _insert_set_up(pairs, [task for _, task in lesson.tasks if isinstance(task, ExerciseCell)], modules)
    pairs.append((_last_cell(lesson), Origin(None, "whole")))
    give_ids([cell for cell, _ in pairs])
    return pairs


def _lab_cell(cell: Cell, session: Session, lesson: Lesson):
    try:
        made = plain_cell(replace(cell, text=session.source(cell)))
    except SyntaxError as error:
        first = cell.text.splitlines()[0]
        raise CourseError(f"{lesson.path.name}: {error.msg} in the cell that starts {first!r}") from None
    made.metadata["tags"] = [*made.metadata.get("tags", []), LAB]
    if draws(cell.text):
        made.metadata["tags"].append(HIDDEN)
        made.metadata["jupyter"] = {"source_hidden": True}
    return made


def _refuse_other_meanings(cell: ExerciseCell, module: Module, origins: dict[str, str], lesson: Lesson) -> None:
    """A notebook has one namespace: two answers that mean two things by one name could not both run in it.

    `origins` says what the earlier answers mean by their names; this one's are added.
    """
    for name in sorted(free_names(definition(cell, module)) | {cell.imported}):
        mine = origin(module, name)
        if origins.setdefault(name, mine) != mine:
            raise CourseError(
                f"{lesson.path.name}: {cell.name} needs {mine}, and an earlier answer of this notebook "
                f"{origins[name]}; rename one of them"
            )


def plain_cell(cell: Cell):
    """Return a notebook cell with the text of a lesson's cell."""
    make = new_code_cell if cell.kind == "code" else new_markdown_cell
    made = make(cell.text)
    if "tags" in cell.metadata:
        made.metadata["tags"] = cell.metadata["tags"]
    return made


def _exercise_cells(cell: ExerciseCell, exercise: Exercise, module: Module) -> list:
    answer = new_code_cell(answer_source(cell, module))
    answer.metadata["nbgrader"] = _nbgrader(cell.slug, solution=True)
    check = new_code_cell(f'from course import check\n\ncheck("{exercise.name}")')
    check.metadata["nbgrader"] = _nbgrader(f"{cell.slug}-check", grade=True, locked=True, points=exercise.points)
    text = new_markdown_cell(_exercise_text(cell, exercise))
    text.metadata["nbgrader"] = _nbgrader(f"{cell.slug}-text", locked=True)
    return [text, answer, check]


def _exercise_text(cell: ExerciseCell, exercise: Exercise) -> str:
    return "\n".join(
        [
            f"### Exercise {exercise.number} · {cell.title}",
            "",
            f"{_effort(cell.fields)} · `nanolm/{path_of(cell.module)}`",
            "",
            f"**What is tested.** {exercise.tested}",
            "",
            f"**Why it matters.** {exercise.why}",
            "",
            *_folded_hints(exercise.hint),
            "",
            f"In an editor instead: write it in `exercises/{path_of(cell.module)}`, then run",
            f"`{exercise.command}`",
        ]
    )


def _folded_hints(hint: str) -> list[str]:
    """The trap, and folded once more the steps, where a hint has both."""
    parts = STEPS.split(hint)
    summaries = ("Hint", "Steps") if len(parts) == 2 else ("Hint",)
    if len(parts) > 2:
        raise CourseError(f"a hint has two parts, divided by //; this has {len(parts)}: {hint[:60]!r}")
    pairs = zip(summaries, parts, strict=True)
    return [f"<details><summary>{summary}</summary>\n\n{part}\n\n</details>" for summary, part in pairs]


def _effort(fields: dict) -> str:
    points = "1 point" if fields["points"] == 1 else f"{fields['points']} points"
    return f"{points} · {fields['minutes']} minutes · difficulty {fields['difficulty']} of 5"


def answer_source(cell: ExerciseCell, module: Module) -> str:
    """Return the answer cell: the definition, its bodies marked. What it imports stands in the set-up cell."""
    node, lines = module.find(cell.imported), module.text.splitlines()
    spans = [body_span(module.find(target), lines, target) for target in cell.targets]
    start, end = first_line(node), max(last_line(node), *(last for _, last in spans))
    # From the bottom up, so that a marker moves no line that is still to be marked.
    for first, last in sorted(spans, reverse=True):
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        lines.insert(last, indent + END)
        lines.insert(first - 1, indent + BEGIN)
    return "\n".join(lines[start - 1 : end + 2 * len(spans)])


def _written_cells(cell: WrittenCell, number: str) -> list:
    question = new_markdown_cell(written_heading(cell, number) + cell.question)
    question.metadata["nbgrader"] = _nbgrader(f"{cell.slug}-text", locked=True)
    answer = new_markdown_cell(f"{BEGIN}\n{cell.answer}\n{END}")
    answer.metadata["nbgrader"] = _nbgrader(cell.slug, grade=True, solution=True, points=cell.fields["points"])
    return [question, answer]


def written_heading(cell: WrittenCell, number: str) -> str:
    """Return what stands above a written question."""
    return f"### Exercise {number} · {cell.title}\n\n{_effort(cell.fields)} · graded by hand\n\n"


def _nbgrader(grade_id: str, grade=False, solution=False, locked=False, points: int | None = None) -> dict:
    made = {"grade": grade, "grade_id": grade_id, "locked": locked, "solution": solution, "task": False}
    made["schema_version"] = 3
    return made if points is None else made | {"points": points}


def _last_cell(lesson: Lesson):
    """What a student who ran all cells sees at the end: what is left to write."""
    last = new_code_cell(f'from course import still_to_write\n\nstill_to_write("{lesson.name}")')
    last.metadata["tags"] = [LAB]
    return last


def _insert_set_up(pairs: list[tuple], tasks: list[ExerciseCell], modules: dict[str, Module]) -> None:
    """What the answers need comes before every other code cell."""
    first = next((i for i, (cell, _) in enumerate(pairs) if cell.cell_type == "code"), None)
    if first is not None:
        pairs.insert(first, (new_code_cell(set_up(tasks, modules)), Origin(None, "whole")))


def give_ids(cells: list) -> None:
    """Set ids from names or from content: editing one cell changes one id, and a rebuild changes none."""
    taken: dict[str, int] = {}
    for cell in cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        base = grade_id or f"cell-{digest(cell)}"
        taken[base] = taken.get(base, 0) + 1
        if grade_id and taken[base] > 1:
            raise CourseError(f"the name {grade_id!r} is used twice in one notebook; that would abort nbgrader")
        cell["id"] = base[:60] if taken[base] == 1 else f"{base}-{taken[base]}"
