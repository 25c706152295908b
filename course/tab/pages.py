"""The pages with exercises to be answered in the tab, as Markdown: the text of the week's cells, and an editor each."""

import json
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from ..building.lesson import Lesson
from ..registry import Exercise
from .pyodide import VERSION

_EDITOR = re.compile(r"(?ms)^In an editor instead:.*")
_SET_UP = "# Set-up for the exercises"
_FENCE = "``````"  # longer than any in a stub
_WITHOUT = "This book was built where Pyodide could not be fetched, so that nothing can be tried here.\n"
_ABOUT = f"""\
Exercises that need no PyTorch, with nothing installed: write an answer and check it with the same tests as in the
notebook, run by a Python in your browser. Nothing is sent anywhere. Answers stay in this browser; the notebook that you
download has them in their cells, for your own copy or for your instructor. What measures your machine, draws, or needs
PyTorch is in the week's notebook. Python for the browser: Pyodide {VERSION}, MPL-2.0; the first check loads 17 MB.
"""
_HOW = """\
Check runs the course's tests, Run the cell alone. In an answer Tab indents, Ctrl+Enter checks, and after Escape Tab
leads on. Answers stay in this browser.
"""


def try_pages(
    lessons: Sequence[Lesson], notebooks: dict[str, Any], exercises: Sequence[Exercise], prose: Callable[..., str]
) -> dict[str, str]:
    """Return Markdown by the page's path: an overview, and a page for each lesson with such exercises.

    Args:
        notebooks: the released ones by their lesson's name.
        exercises: those that the tab checks; none: the overview says so.
        prose: makes the book's Markdown of a text, the notebook that it stands in, and the page's name.
    """
    by_lesson = {
        lesson.name: [e for e in exercises if e.notebook == lesson.notebook_in("notebooks")] for lesson in lessons
    }
    shown = [lesson for lesson in lessons if by_lesson[lesson.name]]
    pages = {"try/index.md": _overview(shown, by_lesson)}
    for lesson in shown:
        pages[f"try/{lesson.name}.md"] = _page(lesson, notebooks[lesson.name], by_lesson[lesson.name], prose)
    return pages


def _overview(shown: Sequence[Lesson], by_lesson: dict[str, list[Exercise]]) -> str:
    if not shown:
        return f"# In a browser's tab\n\n{_WITHOUT}"
    rows = []
    for lesson in shown:
        here = by_lesson[lesson.name]
        points, minutes = sum(each.points for each in here), sum(each.minutes for each in here)
        rows.append(f"| [{lesson.title}]({lesson.name}.md) | {len(here)} | {points} | {minutes} |")
    table = ["| week | exercises here | points | minutes |", "|---|---|---|---|", *rows]
    names = [f"{lesson.title} <{lesson.name}>" for lesson in shown]
    toctree = ["```{toctree}", ":hidden:", ":maxdepth: 1", "", *names, "```"]
    return "\n".join(["# In a browser's tab", "", _ABOUT, *table, "", *toctree, ""])


def _page(lesson: Lesson, notebook: Any, exercises: Sequence[Exercise], prose: Callable[..., str]) -> str:
    cells = notebook.cells
    at = {cell.id: index for index, cell in enumerate(cells)}
    set_up = next((cell.source for cell in cells if cell.source.startswith(_SET_UP)), "")
    parts = [
        f"# {lesson.title}: try it here",
        "",
        f"Explained in [the week itself](../weeks/{lesson.name}.ipynb). {_HOW}",
    ]
    parts += _raw(_bar(lesson, set_up))
    for exercise in exercises:
        index = at[exercise.slug]
        asked = _EDITOR.sub("", cells[index - 1].source).replace("### ", "## ", 1)
        parts += ["", prose(asked, lesson.notebook_in("notebooks"), f"try/{lesson.name}"), ""]
        parts += _raw(_editor(exercise.slug, exercise.name, cells[index].source, exercise.points, exercise.number))
    parts += [
        "",
        "## A cell of your own",
        "",
        "It sees what the cells above have defined since Python was started.",
        "",
    ]
    parts += _raw(_editor("own", "own", "", 0, ""))
    return "\n".join(parts)


def _raw(html: str) -> list[str]:
    return [f"{_FENCE}{{raw}} html", html, _FENCE]


def _bar(lesson: Lesson, set_up: str) -> str:
    """The line above all: how Python does, and the way in and out for the answers."""
    data = json.dumps({"lesson": lesson.name, "setUp": set_up}, ensure_ascii=False).replace("<", "\\u003c")
    return (
        '<div class="run-it tab-bar"><p id="state" role="status"></p>\n'
        '<p><button type="button" id="download">Download the notebook</button>\n'
        '<label>or take answers from one: <input type="file" id="load" accept=".ipynb"></label></p></div>\n'
        f'<script type="application/json" id="lesson">{data}</script>\n'
        '<script defer src="../_static/try/page.js"></script>'
    )


def _editor(cell: str, name: str, text: str, points: int, number: str) -> str:
    label = f"your answer to {number}" if number else "a cell of your own"
    first = ' class="first"'
    buttons = f'<button type="button"{first} data-ask="check">Check</button>\n' if number else ""
    buttons += f'<button type="button"{"" if number else first} data-ask="run">Run</button>\n'
    if number:
        buttons += '<button type="button" class="again">Start again</button>\n'
    return (
        f'<div class="answer" data-cell="{escape(cell)}" data-exercise="{escape(name)}" data-points="{points}">\n'
        f'<textarea aria-label="{label}" spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off">\n'
        f"{escape(text)}</textarea>\n"
        f'<p>{buttons}<button type="button" class="stop" hidden>Stop</button></p>\n'
        '<pre role="status" tabindex="0" hidden></pre></div>'
    )
