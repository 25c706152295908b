"""A night with a notebook: its set-up, one lab's cell, and what that cell says it needs, in an empty session.

Run as a program, `python sessions.py NOTEBOOK`, it does so for every lab's cell and prints a line for each that fails.
"""

import ast
import sys
from dataclasses import dataclass

from course.building.session import SET_UP
from course.paths import read
from course.text.ipython import python_of
from course.text.source import defined_names, free_names


@dataclass(frozen=True)
class Lab:
    """A lab's code in a built notebook: its text, and the names that its `needs` says other cells make."""

    index: int
    source: str
    names: frozenset[str]

    @property
    def title(self) -> str:
        """The first line that is its own."""
        lines = [line for line in self.source.splitlines() if not line.startswith(("needs(", "    ", ")"))]
        return f"cell {self.index}, {lines[0] if lines else self.source[:60]!r}"


def cells_of(path):
    """Return (set-up texts, labs) of a notebook."""
    import nbformat

    cells = [
        (i, cell) for i, cell in enumerate(nbformat.reads(read(path), as_version=4).cells) if cell.cell_type == "code"
    ]
    set_up = [cell.source for _, cell in cells if cell.source.startswith(SET_UP)]
    labs = [
        Lab(i, cell.source, frozenset(_needed(cell.source)))
        for i, cell in cells
        if "lab" in cell.metadata.get("tags", []) and not cell.source.startswith(SET_UP)
    ]
    return set_up, labs


def _needed(source):
    for node in ast.parse(python_of(source)).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "needs":
            return [keyword.arg for keyword in node.value.keywords]
    return []


def before(lab, labs):
    """Return the labs that have to run first, in order: those that made the names it needs, and what they need."""
    wanted, found = set(lab.names), set()
    for earlier in reversed([other for other in labs if other.index < lab.index]):
        makes = defined_names(python_of(earlier.source))
        if wanted & makes:
            found.add(earlier.index)
            wanted = (wanted - makes) | set(earlier.names)
    return [other for other in labs if other.index in found]


def unexplained(path):
    """Return a line for each name that a lab's cell uses and that neither set-up nor its `needs` accounts for."""
    from course.registry import registry

    set_up, labs = cells_of(path)
    known = {name for text in set_up for name in defined_names(python_of(text))}
    notebook = f"/{path.parent.name}/{path.name}"
    asked = {
        t.split(".")[0] for exercise in registry() if exercise.notebook.endswith(notebook) for t in exercise.targets
    }
    lines = []
    for lab in labs:
        left = free_names(python_of(lab.source)) - known - asked - lab.names - {"needs", "display", "get_ipython"}
        lines += [f"{lab.title}: {', '.join(sorted(left))}"] if left else []
    return lines


def run_each(path):
    """Run every lab's cell alone, in this process; return a line for each that fails."""
    from IPython.core.interactiveshell import InteractiveShell

    set_up, labs = cells_of(path)
    shell, failures = InteractiveShell.instance(), []
    shell.showtraceback = lambda *arguments, **options: None
    for lab in labs:
        shell.reset(new_session=False)
        for source in [*set_up, *(other.source for other in before(lab, labs)), lab.source]:
            result = shell.run_cell(source, store_history=False)
            error = result.error_before_exec or result.error_in_exec
            if error is not None:
                failures.append(f"{lab.title}: {type(error).__name__}: {error}")
                break
    return failures


if __name__ == "__main__":
    from pathlib import Path

    sys.stdout.reconfigure(encoding="utf-8")
    print("\n".join(f"FAILED {line}" for line in run_each(Path(sys.argv[1]))))
