"""The engine's own text as a student's answers: a notebook, or a folder, in which every exercise is solved."""

import ast
from pathlib import Path

from course.paths import ROOT, read, write


def notebook_text(*modules: str) -> str:
    """Return the text of modules of the engine as one notebook would hold it.

    Every import is absolute, "nanolm.sampling.rng" for "..sampling.rng". What one of the modules imports from another
    of them is left out: the notebook has it already.

    Args:
        modules: "speculative.acceptance", in an order in which each finds what it needs.
    """
    return "\n".join(_text(module, modules) for module in modules)


def _text(module: str, others: tuple[str, ...]) -> str:
    text = read(ROOT / "nanolm" / f"{module.replace('.', '/')}.py")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            *package, _ = module.split(".")
            source = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            kept = ast.unparse(ast.ImportFrom(f"nanolm.{source}", node.names, 0))
            new = "pass" if source in others else kept
            # Line for line, so that a traceback still points to the right one.
            lines[node.lineno - 1] = " " * node.col_offset + new
            lines[node.lineno : node.end_lineno] = [""] * (node.end_lineno - node.lineno)
    return "\n".join(lines) + "\n"


def solve(folder: Path, *files: str) -> None:
    """Write the engine's text into files of a folder of answers: "sampling/filters.py"; with none named, into all."""
    for file in files or [path.relative_to(folder).as_posix() for path in folder.rglob("*.py")]:
        if not file.endswith("__init__.py"):
            write(folder / file, read(ROOT / "nanolm" / file))
