"""course book: the whole site, from the lessons, the engine's docstrings and the repository's texts; no network."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import nbformat
from tqdm.auto import tqdm

from nanolm._require import how_to_install

from ..building.lesson import Lesson, lessons
from ..building.startpage import self_test_page
from ..building.words import words
from ..errors import CourseError
from ..paths import ROOT, write
from ..tab.files import put
from ..tab.pages import try_pages
from .accessible import mend
from .api import api_pages
from .execute import outputs_of
from .html_checks import complaints
from .lesson_page import folded, week_page
from .links import Links
from .pages import text_pages
from .picture import PICTURE, picture
from .terms import glossary_page

_NEEDED = ("sphinx", "myst_nb", "furo", "mathjax")
_SHOWN = 30
_BUILT = "objects.inv"  # which Sphinx writes
Tell = Callable[[str], None]


def book(site: Path, tell: Tell = print, root: Path = ROOT, only: Sequence[str] = ()) -> int:
    """Build the book into a folder, which is replaced, and return how many pages it has.

    Args:
        only: run and show just these lessons' cells, by name; the other weeks then have no outputs.

    Raises:
        CourseError: the folder holds something else, a package of the extra `book` is missing, a cell fails, Sphinx
            warns, a link leads nowhere, or a picture has no alternative text.
    """
    require_replaceable(site)
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise CourseError(f"the book needs {', '.join(missing)}: {how_to_install('book')}")
    made = root / "build" / "book"
    source = made / "source"
    shutil.rmtree(source, ignore_errors=True)
    _write_source(source, made / "outputs", tell, root, only)
    tell("Sphinx lays out the pages")
    _sphinx(source, made / "pages", made / "doctrees")
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(made / "pages", site)
    mend(site)
    if found := complaints(site):
        more = [f"… and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        raise CourseError("\n".join(["the book has faults:", *found[:_SHOWN], *more]))
    return sum(1 for _ in site.rglob("*.html"))


def require_replaceable(site: Path) -> None:
    """Raise CourseError where a folder, or file, holds anything but a book built before: it would be lost."""
    if site.is_dir() and (not any(site.iterdir()) or (site / _BUILT).is_file()):
        return
    if site.exists():
        raise CourseError(f"{site} holds something else than a book, and would be replaced: name another folder")


def _write_source(source: Path, outputs: Path, tell: Tell, root: Path, only: Sequence[str]) -> None:
    """What Sphinx reads: pages of Markdown, reStructuredText and notebooks, and the book's own settings."""
    found, known, links = lessons(root / "solutions"), words(root), Links.of(root)
    shutil.copytree(root / "book", source)
    (source / "_static" / Path(PICTURE).name).write_bytes(picture(root))
    shutil.copy(_mathjax(), source / "_static" / "mathjax.js")
    released = {each.name: nbformat.read(root / each.notebook_in("notebooks"), as_version=4) for each in found}
    pages = api_pages(root) | text_pages(root, found, links) | {"glossary.md": glossary_page(known, found)}
    in_tab = put(source, root / "build", tell, root)
    pages |= try_pages(found, released, in_tab, lambda *text: folded(links.rewritten(*text)))
    for name, text in pages.items():
        write(source / name, text)
    for lesson in tqdm(found, unit="lesson", desc="weeks", leave=False, delay=2):
        put_out = {} if only and lesson.name not in only else outputs_of(_solution(lesson, root), outputs, tell, root)
        has_tab = f"try/{lesson.name}.md" in pages
        page = week_page(released[lesson.name], lesson, put_out, known, links, has_tab)
        _write_notebook(source / "weeks" / f"{lesson.name}.ipynb", page)
    _write_self_test(source, links, root)


def _write_self_test(source: Path, links: Links, root: Path) -> None:
    self_test = self_test_page(root)
    for cell in self_test.cells:
        if cell.cell_type == "markdown":
            text = links.rewritten(cell.source, "notebooks/self_test.ipynb", "weeks/self_test")
            cell.source = folded(text)
    _write_notebook(source / "weeks" / "self_test.ipynb", self_test)


def _write_notebook(path: Path, notebook: nbformat.NotebookNode) -> None:
    write(path, nbformat.writes(notebook, version=4))  # pyright: ignore[reportArgumentType]


def _solution(lesson: Lesson, root: Path) -> Path:
    return root / lesson.notebook_in("solutions")


def _mathjax() -> Path:
    """MathJax 3 with everything in one file, from the package that carries it; the package itself needs Django."""
    spec = find_spec("mathjax")
    folder = Path(next(iter(spec.submodule_search_locations or []))) if spec else Path()
    return folder / "static" / "mathjax" / "es5" / "tex-svg.js"


def _sphinx(source: Path, pages: Path, doctrees: Path) -> None:
    """Run Sphinx, a warning being an error; beside the pages it leaves a folder of the notebooks that it read."""
    shutil.rmtree(pages, ignore_errors=True)
    arguments = ["-b", "html", "-q", "-W", "--keep-going", "-d", str(doctrees), str(source), str(pages)]
    if subprocess.run([sys.executable, "-m", "sphinx", *arguments]).returncode:
        raise CourseError("Sphinx found faults, which stand above; each has the page's name and its line")
