"""The lessons as Python: what they take from the engine and from the tool is there. To run them takes minutes."""

import ast
import json
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

from course.paths import ROOT, read
from course.text.ipython import python_of

LESSONS = sorted((ROOT / "solutions").glob("week*.py"))


def missing(text: str) -> Iterator[str]:
    """Every import from nanolm or course, and every attribute of a module imported so, that does not exist."""
    nodes, modules = list(ast.walk(ast.parse(python_of(text)))), {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("nanolm", "course"):
            names = {}
            try:
                exec(ast.unparse(node), names)
            except ImportError:
                yield f"line {node.lineno}: {ast.unparse(node)}"
            modules |= {name: value for name, value in names.items() if isinstance(value, ModuleType)}
    uses = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    for use in uses:
        if use.value.id in modules and not hasattr(modules[use.value.id], use.attr):
            yield f"line {use.lineno}: {ast.unparse(use)}"


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_what_a_lesson_takes_from_the_engine_and_the_tool_is_there(path):
    found = list(missing(read(path)))
    assert not found, f"{path.name}: {'; '.join(found)}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from nanolm.cache import KVCash", ["line 1: from nanolm.cache import KVCash"]),
        ("%time x = 1\nfrom nanolm.model import moe\nmoe.route(1)\nmoe.rout(1)", ["line 4: moe.rout"]),
        ("from nanolm.sampling import params as engine\nengine.Params", ["line 2: engine.Params"]),
        ("import torch\ntorch.no_such_thing", []),
    ],
)
def test_what_is_missing_is_found_with_its_line(text, found):
    assert list(missing(text)) == found


NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_link_to_a_file_leads_to_one_from_the_released_notebook_and_from_a_copy(path):
    text = "\n".join(
        "".join(cell["source"]) for cell in json.loads(read(path))["cells"] if cell["cell_type"] == "markdown"
    )
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)\s#]+)", text)
    broken = [link for link in links if not (path.parent / link).exists()]
    assert not broken, f"{path.name}: {', '.join(broken)}"
