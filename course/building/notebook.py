"""From a lesson to its solution notebook: an exercise becomes text, an answer cell and a locked check."""

import hashlib
from dataclasses import dataclass

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ..errors import CourseError
from ..registry import Exercise
from ..text.source import (
    Module,
    body_span,
    defined_names,
    first_line,
    free_names,
    import_lines,
    last_line,
    origin,
    path_of,
    python_of,
)
from .lesson import BEGIN, END, Cell, ExerciseCell, Lesson, WrittenCell

FIRST_CODE = "from course import NotYetWritten, check"
# Code that nobody answers and nobody is graded by, after the first such cell, which sets up. nbgrader passes over it.
LAB = "lab"
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

    cell: Cell | ExerciseCell | WrittenCell | None  # None: the build's own first code cell
    part: str  # "whole", "text", "answer" or "check"


def solution_notebook(lesson: Lesson, modules: dict[str, Module], exercises: list[Exercise]):
    """Return the notebook with every answer in it, each between the markers that nbgrader cuts out.

    Raises:
        CourseError: two exercises of one name, a name that is not in the module, code that is not Python.
    """
    cells = [cell for cell, _ in solution_cells(lesson, modules, exercises)]
    return new_notebook(cells=cells, metadata=METADATA)


def solution_cells(lesson: Lesson, modules: dict[str, Module], exercises: list[Exercise]) -> list[tuple]:
    """Return the solution notebook's cells, each with its Origin; raise CourseError as solution_notebook does."""
    numbers = {task.index: number for number, task in lesson.tasks}
    by_number = {exercise.number: exercise for exercise in exercises}
    pairs, defined, origins, is_set_up = [], set(), {}, False
    for cell in lesson.cells:
        if isinstance(cell, ExerciseCell):
            _refuse_other_meanings(cell, modules[cell.module], origins, lesson)
            made = _exercise_cells(cell, by_number[numbers[cell.index]], modules[cell.module], defined)
        elif isinstance(cell, WrittenCell):
            made = _written_cells(cell, numbers[cell.index])
        else:
            made = [plain_cell(cell)]
            if cell.kind == "code" and is_set_up:
                made[0].metadata["tags"] = [*made[0].metadata.get("tags", []), LAB]
            is_set_up |= cell.kind == "code"
        for new in made:
            # An answer relies on no cell of a lab: it has to work where those are passed over.
            if new.cell_type == "code":
                names = _defined(new.source, lesson)
                defined |= set() if LAB in new.metadata.get("tags", []) else names
        parts = ("text", "answer", "check") if len(made) > 1 else ("whole",)
        pairs += [(new, Origin(cell, part)) for new, part in zip(made, parts, strict=False)]
    _insert_first_code(pairs)
    give_ids([cell for cell, _ in pairs])
    return pairs


def _refuse_other_meanings(cell: ExerciseCell, module: Module, origins: dict[str, str], lesson: Lesson) -> None:
    """A notebook has one namespace: two answers that mean two things by one name could not both run in it.

    `origins` says what the earlier answers mean by their names; this one's are added.
    """
    for name in sorted(free_names(_definition(cell, module)) | {cell.imported}):
        mine = origin(module, name)
        if origins.setdefault(name, mine) != mine:
            raise CourseError(
                f"{lesson.path.name}: {cell.name} needs {mine}, and an earlier answer of this notebook "
                f"{origins[name]}; rename one of them"
            )


def _definition(cell: ExerciseCell, module: Module) -> str:
    node, lines = module.find(cell.imported), module.text.splitlines()
    return "\n".join(lines[first_line(node) - 1 : node.end_lineno])


def _defined(source: str, lesson: Lesson) -> set[str]:
    try:
        return defined_names(python_of(source))
    except SyntaxError as error:
        first = source.splitlines()[0]
        raise CourseError(f"{lesson.path.name}: {error.msg} in the cell that starts {first!r}") from None


def plain_cell(cell: Cell):
    """Return a notebook cell with the text of a lesson's cell."""
    make = new_code_cell if cell.kind == "code" else new_markdown_cell
    made = make(cell.text)
    if "tags" in cell.metadata:
        made.metadata["tags"] = cell.metadata["tags"]
    return made


def _exercise_cells(cell: ExerciseCell, exercise: Exercise, module: Module, defined: set[str]) -> list:
    answer = new_code_cell(answer_source(cell, module, defined))
    answer.metadata["nbgrader"] = _nbgrader(cell.slug, solution=True)
    check = new_code_cell(f'check("{exercise.name}")')
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
            f"<details><summary>Hint</summary>\n\n{exercise.hint}\n\n</details>",
            "",
            f"In an editor instead: write it in `exercises/{path_of(cell.module)}`, then run",
            f"`{exercise.command}`",
        ]
    )


def _effort(fields: dict) -> str:
    points = "1 point" if fields["points"] == 1 else f"{fields['points']} points"
    return f"{points} · {fields['minutes']} minutes · difficulty {fields['difficulty']} of 5"


def answer_source(cell: ExerciseCell, module: Module, defined: set[str]) -> str:
    """Return the answer cell: the imports that the notebook lacks, then the definition, its bodies marked."""
    node, lines = module.find(cell.imported), module.text.splitlines()
    spans = [body_span(module.find(target), lines, target) for target in cell.targets]
    start, end = first_line(node), max(last_line(node), *(last for _, last in spans))
    # From the bottom up, so that a marker moves no line that is still to be marked.
    for first, last in sorted(spans, reverse=True):
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        lines.insert(last, indent + END)
        lines.insert(first - 1, indent + BEGIN)
    lines = lines[start - 1 : end + 2 * len(spans)]
    definition = "\n".join(lines)
    imports = import_lines(module, free_names(definition) - defined)
    return "\n".join([*imports, "", "", definition] if imports else [definition])


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


def _insert_first_code(pairs: list[tuple]) -> None:
    """The names that every answer and check needs, in the first code cell, unless the lesson has them there."""
    first = next((i for i, (cell, _) in enumerate(pairs) if cell.cell_type == "code"), None)
    if first is not None and "NotYetWritten" not in pairs[first][0].source:
        pairs.insert(first, (new_code_cell(FIRST_CODE), Origin(None, "whole")))


def give_ids(cells: list) -> None:
    """Set ids from names or from content: editing one cell changes one id, and a rebuild changes none."""
    taken: dict[str, int] = {}
    for cell in cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        base = grade_id or f"cell-{digest}"
        taken[base] = taken.get(base, 0) + 1
        if grade_id and taken[base] > 1:
            raise CourseError(f"the name {grade_id!r} is used twice in one notebook; that would abort nbgrader")
        cell["id"] = base[:60] if taken[base] == 1 else f"{base}-{taken[base]}"
