"""The front doors of nanolm's packages: which names each gives, and from which file.

`nanolm/<package>/__init__.py` hands names on lazily, so that the arithmetic of `nanolm.budget` does not wait for torch.
The lists in it are written by `course build` from the files' own definitions; its docstring is the author's.
"""

import ast
from difflib import get_close_matches
from pathlib import Path

from ..errors import CourseError
from ..paths import ROOT, packaged, read
from ..registry import homes
from ..text.source import parse

# Rooms whose door gives less than everything: what a command line is made of is nobody's to import, and a kernel is
# reached through its product.
_ONLY = {
    "cli": {"app"},
    "kernels": {
        *("KERNEL_DTYPES", "Backend", "KernelUnavailable", "on_device_of", "set_backend", "uses_triton"),
        *("NotCompiled", "ProductsBackend", "products_backend", "set_products"),
    },
}


def packages(root: Path = ROOT) -> list[str]:
    """Return the names of nanolm's packages, sorted."""
    return sorted(path.parent.name for path in packaged("nanolm", root).glob("*/__init__.py"))


def names_of(package: str, root: Path = ROOT) -> dict[str, str]:
    """Return every public name of a package and the file, without .py, that defines it.

    Raises:
        CourseError: a name that two files define, or that is also a file's.
    """
    homes: dict[str, str] = {}
    files = sorted(path for path in (packaged("nanolm", root) / package).glob("*.py") if path.stem != "__init__")
    for path in files:
        for name in _defined(parse(read(path), f"nanolm/{package}/{path.name}")):
            if name not in _ONLY.get(package, {name}):
                continue
            if name in homes:
                raise CourseError(f"nanolm/{package}: {homes[name]}.py and {path.name} both define {name}")
            if name in {other.stem for other in files}:
                raise CourseError(f"nanolm/{package}: {name} is a file and, in {path.name}, a public name: choose one")
            homes[name] = path.stem
    return homes


def home(package: str, name: str, root: Path = ROOT) -> str:
    """Return the module that defines a package's public name, "cache.contiguous"; a lone module is its own home.

    Raises:
        CourseError: there is no such package, or none of its files defines the name.
    """
    engine = packaged("nanolm", root)
    if not (engine / package).is_dir():
        if (engine / f"{package}.py").exists():
            return package
        raise CourseError(f"there is no nanolm.{package}; there are {', '.join(packages(root))}")
    names = names_of(package, root)
    if name not in names:
        near = get_close_matches(name, names, n=3)
        offer = f"did you mean {' or '.join(near)}?" if near else f"it gives {', '.join(sorted(names))}"
        raise CourseError(f"nanolm.{package} gives no {name}; {offer}")
    return f"{package}.{names[name]}"


def home_of(target: str) -> str | None:
    """Return the engine's module that defines a function or method, asked by a lesson or not; None where none does."""
    known = homes().get(target)
    if known:
        return known
    owner = target.partition(".")[0]
    rooms = (package for package in packages() if owner in names_of(package))
    return next((f"{room}.{names_of(room)[owner]}" for room in rooms), None)


def front_door(package: str, root: Path = ROOT) -> str:
    """Return the text of a package's __init__.py: its docstring as it is, the lists as the files are.

    Raises:
        CourseError: it has no docstring, or two names are in each other's way.
    """
    where = f"nanolm/{package}/__init__.py"
    text = read(root / where)
    tree = parse(text, where)
    if ast.get_docstring(tree) is None:
        raise CourseError(f"{where} has no docstring: it says what the room is for")
    doc = ast.get_source_segment(text, tree.body[0])
    by_file: dict[str, list[str]] = {}
    for name, file in sorted(names_of(package, root).items(), key=lambda item: (item[1], item[0])):
        by_file.setdefault(file, []).append(name)
    lines = [doc, "", "from typing import TYPE_CHECKING", "", "from .._lazy import lazy", ""]
    lines += ["# Written by `course build` from the files' own definitions.", "_HOMES = {"]
    for file, names in by_file.items():
        lines += [f'    "{file}": [', *[f'        "{name}",' for name in names], "    ],"]
    lines += ["}", "__getattr__, __dir__ = lazy(__name__, _HOMES)", "", "if TYPE_CHECKING:"]
    for file, names in by_file.items():
        lines += [f"    from .{file} import {name} as {name}" for name in names]
    return "\n".join(lines) + "\n"


def _defined(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]  # A, B = 1, 2 has a tuple for a target
            names += [part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
    return [name for name in names if not name.startswith("_")]
