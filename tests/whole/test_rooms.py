"""The house: rooms in an order, imports only towards the ground, through inner doors, and no room or file too large."""

import ast
from collections.abc import Iterator

import pytest

from course.front_doors import packages
from course.paths import ROOT, read

ENGINE = ROOT / "nanolm"
# From the ground up. A room knows those before it; those of the first row are lone files.
ROOMS = [
    *("config", "batch_invariant", "_require", "_lazy", "_files"),
    *("kernels", "budget", "sampling", "text"),
    *("quantization", "attention"),
    *("paging", "cache", "window"),
    *("model", "mla"),
    *("checkpoint", "machine", "speculative"),
    "engine",
    *("workload", "serving", "cli"),
]
OUTSIDE = {"course", "tests", "benchmarks", "training", "exercises"}
MOST_FILES = 13  # of a room, its __init__.py counted
MOST_LINES = 250
LONGER = {
    "model/decoder.py": "one class and its docstrings: the pass, the loop, and what both refuse",
    "paging/radix_cache.py": "one class: the three exercises, the host store, and what both count",
}
FILES = sorted(path.relative_to(ENGINE).as_posix() for path in ENGINE.rglob("*.py"))
NAMES = {file.removesuffix(".py").removesuffix("/__init__") for file in FILES}
INSIDE = [file for file in FILES if file != "__init__.py"]  # the front door of the house hands on from every room


def imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import that can run, those inside functions too; what stands under `if TYPE_CHECKING` never does."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test).rpartition(".")[2] == "TYPE_CHECKING":
            for other in child.orelse:
                yield from imports(ast.Module([other], []))
        else:
            yield from imports(child)


def imported(file: str, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Where an import of the engine looks, and for what: "cache.contiguous", "KVCache". Nothing for other imports."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] == "nanolm":
                yield alias.name.partition(".")[2], ""
        return
    package = ["nanolm", *file.split("/")[:-1]]
    parts = package[: len(package) - node.level + 1] if node.level else []
    parts += (node.module or "").split(".") if node.module else []
    if parts[:1] == ["nanolm"]:
        for alias in node.names:
            yield ".".join(parts[1:]), alias.name


def complaints(file: str, text: str) -> list[str]:
    """What is wrong with the imports of one of the engine's files, a line for each."""
    found, own = [], file.removesuffix(".py").split("/")[0]
    for node in imports(ast.parse(text)):
        line = f"nanolm/{file}, line {node.lineno}: {ast.unparse(node)}"
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        if getattr(node, "level", 0) == 0 and {name.partition(".")[0] for name in names} & OUTSIDE:
            found.append(f"{line}: the engine knows nothing of what is built on it")
        for module, name in imported(file, node):
            whole = ".".join(filter(None, [module, name]))
            inner = whole if whole.replace(".", "/") in NAMES else module  # the file or room that is imported from
            room = inner.partition(".")[0]
            if room not in ROOMS:
                found.append(f"{line}: {room or 'nanolm itself'} is no room")
            elif ROOMS.index(room) > ROOMS.index(own):
                found.append(f"{line}: {own} must not know {room}, which comes after it")
            if inner.replace(".", "/") in packages():
                found.append(f"{line}: inside the engine a name is imported from its file, not from the front door")
    return found


def test_every_room_has_its_place_in_the_order():
    found = {file.removesuffix(".py").split("/")[0] for file in INSIDE}
    assert found == set(ROOMS), f"in one and not in the other: {found ^ set(ROOMS)}"


@pytest.mark.parametrize("file", INSIDE)
def test_a_file_imports_only_from_its_room_and_those_before_it_and_through_inner_doors(file):
    found = complaints(file, read(ENGINE / file))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("room", packages())
def test_a_room_has_few_files(room):
    files = [file for file in FILES if file.startswith(f"{room}/")]
    assert len(files) <= MOST_FILES, f"nanolm/{room} has {len(files)} files, at most {MOST_FILES}: make two rooms of it"
    deep = [file for file in files if file.count("/") > 1]
    assert not deep, f"a room has no rooms in it: {deep}"


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_short_or_says_why_not(file):
    n = len(read(ENGINE / file).splitlines())
    if file in LONGER:
        assert n > MOST_LINES, f"nanolm/{file} has {n} lines by now: strike it from the list of longer ones"
    else:
        assert n <= MOST_LINES, f"nanolm/{file} has {n} lines, at most {MOST_LINES}, or a reason in LONGER"


def test_the_list_of_longer_files_names_files():
    assert LONGER.keys() <= set(FILES)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("from ..engine.engine import Engine", "cache must not know engine"),
        ("def later():\n    from ..engine.engine import Engine", "cache must not know engine"),
        ("from nanolm.engine.engine import Engine", "cache must not know engine"),
        ("import nanolm.engine.engine", "cache must not know engine"),
        ("from ..engine import engine", "cache must not know engine"),
        ("try:\n    from .. import engine\nexcept ImportError:\n    pass", "cache must not know engine"),
        ("from ..attention import attend", "not from the front door"),
        ("from . import StaticKVCache", "not from the front door"),
        ("import nanolm.attention", "not from the front door"),
        ("from .. import attention", "not from the front door"),
        ("from .. import KVCache", "nanolm itself is no room"),
        ("import nanolm", "nanolm itself is no room"),
        ("from course import check", "knows nothing of what is built on it"),
        ("import training.train", "knows nothing of what is built on it"),
        ("from ..shipped import model", "shipped is no room"),
        ("if not TYPE_CHECKING:\n    from ..engine.engine import Engine", "cache must not know engine"),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from ..engine.engine import Engine", "cache must not know engine"),
    ],
)
def test_an_import_that_breaks_a_rule_is_found_with_its_line(text, complaint):
    (found,) = {line for line in complaints("cache/static.py", text) if complaint in line}
    number = next(i for i, line in enumerate(text.splitlines(), start=1) if "import" in line)
    assert found.startswith(f"nanolm/cache/static.py, line {number}: ")


@pytest.mark.parametrize(
    "text",
    [
        "from ..attention.dot_product import attend",
        "from ..attention import dot_product",
        "from .ragged import RaggedKVCache",
        "from . import ragged",
        "from ..config import ModelConfig",
        "from .. import config",
        "from .._require import require",
        "import torch",
        "if TYPE_CHECKING:\n    from ..engine.engine import Engine",
        "if typing.TYPE_CHECKING:\n    from ..engine import Engine",
    ],
)
def test_an_import_that_keeps_the_rules_is_none_of_those(text):
    assert complaints("cache/static.py", text) == []
