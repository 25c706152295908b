"""The notebooks of a student's folder under a new version of the lessons."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CourseError
from ..paths import read
from ..text.files import load, parsed, to_text
from ..work.layout import Work
from ..work.plan import Plan
from .merge import Leftover, Merged, merge, place, require_of_lesson

_MEND = "mend it or move it elsewhere, then run this again"
Texts = Mapping[str, tuple[str, str | None]]


@dataclass
class Book:
    """A lesson's notebook on its way into the student's folder: as text where nothing had to be merged."""

    merged: Merged
    text: str | None
    said: str


def update_lessons(plan: Plan, lessons: Mapping[str, str], old: Texts) -> None:
    """Plan the student's copies of all lessons in their present version.

    Args:
        lessons: the present notebooks by their path from notebooks/.
        old: from elsewhere, the student's notebooks and what they began as: used where the copy has nothing in it.

    Raises:
        CourseError: a copy is no notebook, or has no cell of its lesson.
    """
    books = {lesson: _book(plan, lesson, new, old) for lesson, new in lessons.items()}
    copied = [Path(lesson).stem for lesson in lessons if not (plan.work.folder / lesson).exists() and lesson not in old]
    plan.done += [f"copied to {plan.work.shown(plan.work.folder)}/: {', '.join(copied)}"] if copied else []
    _place_leftovers(plan, books)
    for lesson, book in books.items():
        text = to_text(book.merged.notebook) if book.text is None else book.text
        plan.changes.write(plan.work.folder / lesson, text)
        plan.done += [book.said] if book.said else []
        plan.look += [f"{Path(lesson).stem}, {line}" for line in book.merged.look]
    for path, text in plan.work.noted(dict(lessons)).items():
        plan.changes.write(path, text)


def require_copies(work: Work) -> None:
    """Raise CourseError if a copy is no notebook, or has no cell of its lesson."""
    for lesson, source in work.lessons.items():
        path, base = work.folder / lesson, work.original(lesson)
        if source.suffix == ".ipynb" and path.exists():
            try:
                require_of_lesson(load(path), load(source), parsed(base) if base else None)
            except CourseError as error:
                raise CourseError(f"{work.shown(path)} {error}: {_MEND}") from None


def is_untouched(mine: dict[str, Any], lesson: dict[str, Any]) -> bool:
    """Return whether two notebooks have the same cells, whatever their outputs and metadata."""
    return [_said_by(cell) for cell in mine["cells"]] == [_said_by(cell) for cell in lesson["cells"]]


def _said_by(cell: dict[str, Any]) -> tuple[Any, str]:
    return cell.get("cell_type"), cell["source"].strip()


def _book(plan: Plan, lesson: str, new: str, old: Texts) -> Book:
    name, path = Path(lesson).stem, plan.work.folder / lesson
    text, base = _students(plan, lesson, old)
    if text is None:
        return Book(Merged(parsed(new)), new, "")
    mine = parsed(text)
    if is_untouched(mine, parsed(new if base is None else base)):
        if base in (None, new):
            return Book(Merged(mine), text, "")
        return Book(Merged(parsed(new)), new, f"{name}: the new version; nothing of yours was in it")
    if base == new:
        return Book(Merged(mine), text, f"{name}: as you had it" if lesson in old else "")
    try:
        merged = merge(mine, None if base is None else parsed(base), parsed(new))
    except CourseError as error:
        raise CourseError(f"{plan.work.shown(path)} {error}: {_MEND}") from None
    return Book(merged, None, f"{name}: the new version, with {_count(merged)}")


def _students(plan: Plan, lesson: str, old: Texts) -> tuple[str | None, str | None]:
    """The text that holds the student's part of a lesson, and the lesson's text that it began as."""
    path, base = plan.work.folder / lesson, plan.work.original(lesson)
    try:
        mine = load(path) if path.exists() else None
    except CourseError as error:
        raise CourseError(
            f"{plan.work.shown(path)} {error}: mend it or move it elsewhere, then run this again"
        ) from None
    if lesson in old:
        if mine is None or (base is not None and is_untouched(mine, parsed(base))):
            return old[lesson]
        if not is_untouched(mine, parsed(old[lesson][0])):
            plan.look.append(f"{lesson} is answered in two places; your copy in {plan.work.shown(path)} was taken")
    return (None if mine is None else read(path)), base


def _place_leftovers(plan: Plan, books: dict[str, Book]) -> None:
    """Answers whose notebook asks them no more go to the one that does; what nobody asks is kept."""
    for lesson, book in [*books.items(), *_gone(plan, books)]:
        for left in book.merged.left:
            other = next((other for other in books if place(left, books[other].merged)), None)
            if other is None:
                _keep(plan, lesson, left)
            else:
                books[other].text = None
                plan.done.append(f"{left.key} moved with its exercise: {Path(lesson).stem} → {Path(other).stem}")


def _gone(plan: Plan, books: dict[str, Book]) -> list[tuple[str, Book]]:
    """Copies of lessons that the course has no more: they stay where they are, their answers are looked for a place."""
    found = []
    for lesson in plan.work.note():
        path, base = plan.work.folder / lesson, plan.work.original(lesson)
        if lesson in books or base is None or not path.is_file():
            continue
        merged = merge(load(path), parsed(base), {"cells": [], "metadata": {}})
        plan.done.append(f"{Path(lesson).stem}: the course has no such notebook any more; your copy stays where it is")
        found.append((lesson, Book(merged, "", "")))
    return found


def _keep(plan: Plan, lesson: str, left: Leftover) -> None:
    name = Path(lesson).stem
    plan.keep(f"{name}/{left.file}", left.cell["source"] + "\n", f"{left.key} of {name}, because {left.why}")


def _count(merged: Merged) -> str:
    answers, own = len(merged.answers), merged.own
    parts = [f"{answers} answer{'s' * (answers != 1)}"] if answers or not own else []
    parts += [f"{own} cell{'s' * (own != 1)}"] if own else []
    return f"{' and '.join(parts)} of yours"
