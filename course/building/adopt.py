"""Edits of a solution notebook, taken back to where they belong: answers to the engine, the rest to the lesson."""

import re
from pathlib import Path

import jupytext
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ..errors import CourseError
from ..paths import ROOT, read, write
from ..text.source import Module, defined_names, first_line, free_names, path_of
from .build import build, is_as_built, sources
from .lesson import BEGIN, END, Cell, ExerciseCell, Lesson, WrittenCell
from .notebook import solution_cells, solution_notebook, to_text, written_heading
from .session import without_needs
from .words import words


def adopt(notebook: Path, root: Path = ROOT) -> list[str]:
    """Write a solution notebook's edits to its sources, rebuild, and return the paths written.

    Raises:
        CourseError: it is no solution notebook; its source has changed as well; or an edit has no place in a source.
            Nothing is written then.
    """
    found, exercises, modules = sources(root)
    lesson = _lesson_of(notebook, found, root)
    path = lesson.notebook_in("solutions")
    if not is_as_built(root, path, to_text(solution_notebook(lesson, modules, exercises, words(root)))):
        raise CourseError(
            f"{lesson.path.name} or the engine has changed since the last build, and so has the notebook: "
            "keep a copy of the notebook, run course build --force, and put its edits into the new one"
        )
    edited = nbformat.read(root / path, as_version=4).cells
    pairs = solution_cells(lesson, modules, exercises, words(root))
    answers = {module.name: module.text for module in modules.values()}
    text = _lesson_text(lesson, edited, pairs, answers)
    changed = {f"nanolm/{path_of(name)}": new for name, new in answers.items() if new != modules[name].text}
    if text != read(lesson.path):
        changed[f"solutions/{lesson.path.name}"] = text
    for target, new in changed.items():
        write(root / target, new)
    return [*changed, *build(root, overwrite=[path]).written]


def _lesson_of(notebook: Path, found: list[Lesson], root: Path) -> Lesson:
    for lesson in found:
        if notebook.resolve() == (root / lesson.notebook_in("solutions")).resolve():
            return lesson
    if notebook.name in ("start.ipynb", "self_test.ipynb"):
        raise CourseError(f"this page is written in solutions/{notebook.stem}.py; edit that")
    raise CourseError(f"{notebook} is no solution notebook; those are solutions/weekNN_name/weekNN_name.ipynb")


def _lesson_text(lesson: Lesson, edited: list, pairs: list[tuple], answers: dict[str, str]) -> str:
    """The lesson with the edits in it; `answers` (texts of modules) changes along with them."""
    origins = {cell["id"]: (cell, origin) for cell, origin in pairs}
    header, chunks = split(read(lesson.path))
    numbers = {task.index: number for number, task in lesson.tasks}
    new, questions = [], {}
    _require_whole(edited, pairs)
    for cell in edited:
        built, origin = origins.get(cell.get("id"), (None, None))
        if origin is None:
            _refuse_graded(cell)
            new.append(_chunk(cell))
        elif isinstance(origin.cell, Cell):
            new.append(chunks[origin.cell.index] if cell.source == built.source else _chunk(cell))
        elif origin.cell is None:
            new += [] if cell.source == built.source else _refuse_made(cell)
        elif isinstance(origin.cell, ExerciseCell):
            new += _exercise(cell, built, origin.cell, origin.part, chunks, answers)
        else:
            questions[origin.part, origin.cell.index] = cell.source
            if origin.part == "answer":
                new.append(_question(origin.cell, numbers[origin.cell.index], questions, chunks))
    return "\n\n".join([header, *new] if header else new) + "\n"


def split(text: str) -> tuple[str, list[str]]:
    """Return what precedes a py:percent text's first cell, and the texts of its cells."""
    header, *chunks = re.split(r"(?m)^(?=# %%)", text)
    return header.strip(), [chunk.strip() for chunk in chunks]


def _refuse_made(cell) -> list[str]:
    first = cell.source.splitlines()[0]
    raise CourseError(f"the cell that starts {first!r} is made by the build, from what the answers and words are")


def _chunk(cell) -> str:
    kept = new_code_cell(without_needs(cell.source)) if cell.cell_type == "code" else new_markdown_cell(cell.source)
    return split(jupytext.writes(new_notebook(cells=[kept]), fmt="py:percent"))[1][0]


def _require_whole(edited: list, pairs: list[tuple]) -> None:
    """Every part of an exercise must still be there, once and in its order."""
    wanted = [cell["id"] for cell, origin in pairs if isinstance(origin.cell, ExerciseCell | WrittenCell)]
    present = [cell.get("id") for cell in edited if cell.get("id") in wanted]
    missing = [name for name in wanted if name not in present]
    if missing:
        raise CourseError(f"the cell {missing[0]} is gone; to drop an exercise, delete it from the lesson's source")
    if present != wanted:
        raise CourseError(
            "the cells of the exercises are in another order; to move an exercise, edit the lesson's source"
        )


def _refuse_graded(cell) -> None:
    if "nbgrader" in cell.metadata:
        raise CourseError(
            f"{cell.source[:60]!r} is a new graded cell; a new exercise is declared in the lesson's source"
        )


def _exercise(cell, built, task: ExerciseCell, part: str, chunks: list[str], answers: dict[str, str]) -> list[str]:
    """The exercise's chunk in place of its text; its answer, if edited, into the module's text."""
    if part == "answer" and cell.source != built.source:
        answers[task.module] = _with_answer(answers[task.module], task, cell.source)
    elif part != "answer" and cell.source != built.source:
        raise CourseError(f"the {part} of {task.name} is made from the fields in the lesson's source; edit those")
    return [chunks[task.index]] if part == "text" else []


def _with_answer(text: str, task: ExerciseCell, source: str) -> str:
    lines = [line for line in source.splitlines() if line.strip() not in (BEGIN, END)]
    cell = Module.parse(f"the answer of {task.name}", "\n".join(lines))
    node = cell.find(task.imported)
    definition = "\n".join(lines[first_line(node) - 1 : node.end_lineno])
    unknown = free_names(definition) - defined_names(text)
    if unknown:
        raise CourseError(
            f"the answer of {task.name} uses {', '.join(sorted(unknown))}: import it in nanolm/{path_of(task.module)}"
        )
    module = Module.parse(task.module, text)
    old = module.find(task.imported)
    kept = text.splitlines()
    kept[first_line(old) - 1 : old.end_lineno] = definition.splitlines()
    return "\n".join(kept) + "\n"


def _question(task: WrittenCell, number: str, sources: dict, chunks: list[str]) -> str:
    """A written question's chunk: its own head line, the question and the model answer as they are now."""
    heading = written_heading(task, number)
    question, answer = sources["text", task.index], sources["answer", task.index].strip()
    if not question.startswith(heading):
        raise CourseError(f"the heading of {task.name} is made from the lesson's source; edit that")
    if not (answer.startswith(BEGIN) and answer.endswith(END)):
        raise CourseError(f"the model answer of {task.name} must stand between {BEGIN} and {END}")
    head = chunks[task.index].splitlines()[0]
    body = f"{question.removeprefix(heading).strip()}\n\n{answer}"
    return "\n".join([head, *(f"# {line}".rstrip() for line in body.splitlines())])
