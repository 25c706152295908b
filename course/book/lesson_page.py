"""A week as a page of the book: the released text, with what the reference's cells put out, and no answer."""

import re
from collections.abc import Sequence
from typing import Any

import nbformat

from ..building.lesson import Lesson
from ..building.session import without_needs
from ..building.words import Word
from .execute import Outputs, is_check
from .links import Links
from .terms import Terms, known_in

_DETAILS = re.compile(r"<details><summary>(.*?)</summary>\s*(.*?)\s*</details>", re.DOTALL)
_WIDGET = "application/vnd.jupyter.widget-view+json"
_HOW = re.compile(r"(?ms)^## How to work\n.*")
_STUB = "raise NotYetWritten"


def week_page(
    notebook: Any, lesson: Lesson, outputs: Outputs, words: Sequence[Word], links: Links, has_tab: bool = False
) -> Any:
    """Return a released notebook as the book shows it.

    Args:
        notebook: as it was released: it holds no answer.
        outputs: of the solution notebook's cells, by their ids; those of answers are not shown.
        has_tab: whether the book has a page with exercises of this lesson that are answered in the browser.
    """
    page, source = f"weeks/{lesson.name}", lesson.notebook_in("notebooks")
    terms, cells = Terms(known_in(lesson, words)), list[Any]()
    for cell in notebook.cells:
        if is_check(cell):
            continue
        if cell.cell_type == "markdown":
            text = folded(links.rewritten(cell.source, source, page))
            cells.append(_markdown(text if _HOW.match(cell.source) else terms.linked(text)))
        else:
            cells.append(_code(cell, outputs.get(cell.id, [])))
    cells.insert(1, _markdown(run_it(lesson, links.address, has_tab)))
    return nbformat.v4.new_notebook(cells=cells, metadata=notebook.metadata)


def run_it(lesson: Lesson, address: str, has_tab: bool = False) -> str:
    """Return the bar that says where to work in the week; Colab and Binder where the repository is on their host."""
    at = lesson.notebook_in("notebooks")
    here = f"**Run it.** `make lab`, then open `work/{at.removeprefix('notebooks/')}`"
    places = [here, f"[in this browser](../try/{lesson.name}.md), nothing installed"] if has_tab else [here]
    host, _, name = address.removeprefix("https://").partition("/")
    if host == "github.com":
        places.append(f"[Colab](https://colab.research.google.com/github/{name}/blob/main/{at})")
        places.append(f"[Binder](https://mybinder.org/v2/gh/{name}/HEAD?labpath={at})")
    if address:
        places.append(f"[its source]({address}/blob/main/{at})")
    note = "What stands below a cell was put out by the reference, on the machine named in it; yours has other times."
    return f":::{{container}} run-it\n{' · '.join(places)}\n\n{note}\n:::"


def folded(text: str) -> str:
    """Return Markdown whose folded parts are read as Markdown too, not as HTML."""
    return _DETAILS.sub(r"<details><summary>\1</summary>\n\n\2\n\n</details>", text)


def shown(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return outputs without progress bars, warnings and what needs a kernel behind it."""
    kept = []
    for output in outputs:
        if output["output_type"] == "stream":
            if output["name"] != "stdout":
                continue
        elif _WIDGET in output.get("data", {}):
            said = output["data"].get("text/plain", "")
            if not said.startswith("capacity calculator"):
                continue
            output = output | {"data": {"text/plain": said}}
        kept.append(nbformat.from_dict(output))
    return kept


def _code(cell: Any, outputs: list[dict[str, Any]]) -> Any:
    tags = [tag for tag in cell.metadata.get("tags", []) if tag == "hide-input"]
    is_answer = _STUB in cell.source
    if cell.source.startswith("# Set-up"):
        tags = ["hide-input"]
    made = nbformat.v4.new_code_cell(
        without_needs(cell.source), outputs=[] if is_answer else shown(outputs), metadata={"tags": tags}
    )
    made["id"] = cell.id
    return made


def _markdown(text: str) -> Any:
    return nbformat.v4.new_markdown_cell(text)
