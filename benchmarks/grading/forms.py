"""What programs and people do to a notebook before it is handed in; the answers in it stay what they are."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from course.text.cells import grade_id, is_answer_cell

Notebook = dict[str, Any]


def _older(notebook: Notebook, draw: Random) -> None:
    notebook["nbformat_minor"] = draw.randrange(5)
    for cell in notebook["cells"]:
        cell.pop("id", None)


def _stripped(notebook: Notebook, draw: Random) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    notebook["metadata"] = {}


def _copied(notebook: Notebook, draw: Random) -> None:
    cell = draw.choice([cell for cell in notebook["cells"] if is_answer_cell(cell) and cell["cell_type"] == "code"])
    notebook["cells"].insert(notebook["cells"].index(cell) + 1, copy.deepcopy(cell) | {"id": "a-second-one"})


def _unchecked(notebook: Notebook, draw: Random) -> None:
    checks = [cell for cell in notebook["cells"] if (grade_id(cell) or "").endswith("-check")]
    notebook["cells"].remove(draw.choice(checks))


def _timed(notebook: Notebook, draw: Random) -> None:
    cell = draw.choice([cell for cell in notebook["cells"] if is_answer_cell(cell) and cell["cell_type"] == "code"])
    cell["source"] = "%%time\n" + cell["source"]


def _below(notebook: Notebook, draw: Random) -> None:
    """An answer stands in a cell that the student has made, and the lesson's own cell is deleted."""
    cell = draw.choice([cell for cell in notebook["cells"] if is_answer_cell(cell) and cell["cell_type"] == "code"])
    cell["metadata"], cell["id"] = {}, "my-own"


@dataclass(frozen=True)
class Form:
    """How a notebook is handed in.

    Attributes:
        change: what is done to its cells.
        name: of its file; {stem} is the lesson's.
        prefix, newline: of the file's bytes.
    """

    change: Callable[[Notebook, Random], None] = lambda notebook, draw: None
    name: str = "{stem}.ipynb"
    prefix: bytes = b""
    newline: str = "\n"

    def bytes_of(self, notebook: Notebook, draw: Random) -> bytes:
        """Return the file."""
        made = copy.deepcopy(notebook)
        self.change(made, draw)
        text = json.dumps(made, indent=1, ensure_ascii=False)
        return self.prefix + text.replace("\n", self.newline).encode("utf-8")


FORMS = {
    "as it came": Form(),
    "saved twice": Form(name="{stem} (1).ipynb"),
    "copied": Form(name="{stem}-Copy1.ipynb"),
    "other letters": Form(name="{stem}_FINAL.IPYNB"),
    "nbformat 4.0 to 4.4": Form(_older),
    "no metadata": Form(_stripped),
    "answer cell copied": Form(_copied),
    "check deleted": Form(_unchecked),
    "%%time": Form(_timed),
    "own cell": Form(_below),
    "BOM and CRLF": Form(prefix=b"\xef\xbb\xbf", newline="\r\n"),
}
