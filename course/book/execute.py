"""What a lesson's cells print and draw: its solution notebook, run once and kept by the hash of all that it runs."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

from ..errors import CourseError
from ..paths import ROOT, read, write

Outputs = dict[str, list[dict[str, Any]]]  # of cells by their ids
_RUN = ("nanolm", "course/capstone", "course/lab")  # whose change makes every output anew
_NOT_RUN = "nanolm/cli/"  # a command, which no cell calls
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CELL_SECONDS = 1200  # longer, and a cell is taken for stuck


def outputs_of(notebook: Path, kept: Path, tell: Callable[[str], None] = print, root: Path = ROOT) -> Outputs:
    """Return what the code cells of a solution notebook put out, by their ids.

    Checks are left out: they print nothing of a right answer, and take longer than all else. The notebook is run if
    the folder `kept` has no outputs of the same code, engine and models.

    Raises:
        CourseError: a cell fails; the message has the cell's first line and its error.
    """
    cells = nbformat.read(notebook, as_version=4)
    cells.cells = [cell for cell in cells.cells if not is_check(cell)]
    path = kept / f"{notebook.stem}-{_version(cells, root)}.json"
    if not path.is_file():
        tell(f"{notebook.stem}: running its cells, which takes minutes; they are kept in {kept}")
        _run(cells, notebook)
        for old in kept.glob(f"{notebook.stem}-*.json"):
            old.unlink()
        write(path, json.dumps({c.id: c.outputs for c in cells.cells if c.cell_type == "code"}, ensure_ascii=False))
    return json.loads(read(path))


def is_check(cell: Any) -> bool:
    """Return whether a cell only grades, or lists what is not written."""
    return cell.cell_type == "code" and cell.source.startswith(
        ("from course import check\n", "from course import still")
    )


def _run(notebook: Any, path: Path) -> None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=_CELL_SECONDS, kernel_name="python3", resources=where)
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError) as error:
        lines = _COLOUR.sub("", str(error)).strip().splitlines()
        raise CourseError(
            f"{path.name}: a cell fails, and with it the book: {lines[-1]}\n" + "\n".join(lines)
        ) from None


def _version(notebook: Any, root: Path) -> str:
    """The hash of the cells' code and of what they run; no date, no path."""
    found = hashlib.sha256()
    for cell in notebook.cells:
        found.update(f"{cell.cell_type}\0{cell.source}\0".encode() if cell.cell_type == "code" else b"")
    for folder in _RUN:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and "__pycache__" not in name and not name.startswith(_NOT_RUN):
                found.update(name.encode("utf-8") + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]
