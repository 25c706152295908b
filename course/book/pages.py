"""The pages of the book that are no week: the start page, and texts of the repository as they are."""

import re
from collections.abc import Sequence
from pathlib import Path

from ..building.lesson import Cell, Lesson
from ..building.startpage import weeks_table
from ..errors import CourseError
from ..paths import read
from .links import Links
from .replays import replay_html

_TEXTS = {
    "models.md": "nanolm/shipped/README.md",
    "benchmarks.md": "benchmarks/README.md",
    "instructors.md": "INSTRUCTORS.md",
    "house.md": "ARCHITECTURE.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
    "students.md": "book/students.md",
    "use.md": "book/use.md",
}
_LEVERS = "## Five levers\n"


def text_pages(root: Path, lessons: Sequence[Lesson], links: Links) -> dict[str, str]:
    """Return Markdown by the page's path: the start page, the self-test's place, and the repository's texts."""
    pages = {page: links.rewritten(read(root / file), file, page.removesuffix(".md")) for page, file in _TEXTS.items()}
    made = {"index.md": _start(root, lessons, links), "weeks/index.md": _weeks(lessons), "watch.md": _watch(root)}
    return pages | made


def _start(root: Path, lessons: Sequence[Lesson], links: Links) -> str:
    table = links.rewritten(weeks_table(list(lessons)), "notebooks/start.ipynb", "index")
    text = read(root / "book" / "index.md")
    text = text.replace("{{weeks}}", table).replace("{{levers}}", _levers(lessons, links))
    if left := re.search(r"\{\{\w+\}\}", text):
        raise CourseError(f"book/index.md has {left[0]}, for which the book has nothing")
    return text


def _watch(root: Path) -> str:
    """The recorded runs, each in the place of its name."""
    text = read(root / "book" / "watch.md")
    # A longer fence than any run of colons in a run's texts.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: f"::::::{{raw}} html\n{replay_html(found[1], root)}\n::::::", text)


def _levers(lessons: Sequence[Lesson], links: Links) -> str:
    """The table of the five levers, as week 1 has it."""
    first = lessons[0]
    for cell in first.cells:
        if isinstance(cell, Cell) and cell.text.startswith(_LEVERS):
            table = "\n".join(line for line in cell.text.splitlines() if line.startswith("|"))
            return links.rewritten(table, first.notebook_in("notebooks"), "index")
    raise CourseError(f"{first.path.name} has no cell that starts with {_LEVERS.strip()!r}")


def _weeks(lessons: Sequence[Lesson]) -> str:
    names = "\n".join(["self_test", *(lesson.name for lesson in lessons)])
    return f"# The ten weeks\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"
