"""The screen: what an answer's syntax tree has in it that no answer needs, one sentence each.

It is the first of several guards, and the only one against code that looks around in its own process. What it finds
is for a human to judge. It reads what the tests of an exercise can reach: what runs when the file is imported, and
every definition whose name stands in something reached.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache

from ..paths import packaged, read
from ..registry import Exercise
from ..text.source import Definition, Module, path_of
from . import rules
from .names import bindings, chain, classes_held, constant, excused, handed_on, imported, is_dunder
from .reach import is_left_lying, run_at_import

_HIDDEN_NAME = re.compile(r"__[A-Za-z]|[A-Za-z]__")


def screen(exercise: Exercise, modules: Mapping[str, Module], reached: set[str]) -> list[str]:
    """Return a sentence for each finding in what the exercise's tests reach of these modules (`reached_names`)."""
    found: dict[str, None] = {}
    for name, module in modules.items():
        reader = _Reader(path_of(name), module.tree, reached)
        own = _engine_s_own(name, exercise)
        for node in module.tree.body:
            if ast.dump(node) in own:
                continue
            if not isinstance(node, Definition) or node.name in reached:
                reader.read(node, own if isinstance(node, ast.ClassDef) else frozenset())
            else:
                for part in run_at_import(node):
                    reader.read(part, frozenset())
        found |= dict.fromkeys(reader.findings)
    return list(found)


@cache
def _engine_s_own(name: str, exercise: Exercise) -> frozenset[str]:
    """The statements that nobody has written who is graded: the engine's file without the exercise's functions."""
    path = packaged("nanolm") / path_of(name)
    if not path.is_file():
        return frozenset()
    tree = Module.parse(name, read(path)).tree
    asked = set(exercise.targets) if name == exercise.module else set()
    parts = [(node, "") for node in tree.body]
    parts += [(child, f"{node.name}.") for node in tree.body if isinstance(node, ast.ClassDef) for child in node.body]
    return frozenset(ast.dump(node) for node, owner in parts if f"{owner}{getattr(node, 'name', '')}" not in asked)


class _Reader:
    """Reads one file's statements and takes down what it finds."""

    def __init__(self, file: str, tree: ast.Module, reached: set[str]) -> None:
        self.file, self.names, self.reached = file, imported(tree), reached
        self.classes, self.handed_on = classes_held(tree), handed_on(tree)
        self.findings: list[str] = []
        self.excused: set[int] = set()

    def read(self, node: ast.AST, own: frozenset[str]) -> None:
        """Read a statement or expression and all in it, but for those parts of a class that are the engine's own."""
        docs, self.excused = {id(each) for each in _docstrings(node)}, excused(node)
        ahead: list[ast.AST] = [node]
        while ahead:
            part = ahead.pop()
            if part in getattr(node, "body", ()) and ast.dump(part) in own:
                continue
            if id(part) not in docs:
                for problem in self._problems(part):
                    self.findings.append(
                        f"{self.file}, line {getattr(part, 'lineno', getattr(node, 'lineno', 0))}: {problem}"
                    )
            ahead += ast.iter_child_nodes(part)

    def _problems(self, node: ast.AST) -> Iterator[str]:
        check = getattr(self, f"_{type(node).__name__.lower()}", None)
        if check is not None:
            yield from check(node)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield from self._store(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        for module, part, name in bindings(node):
            if not is_left_lying(module, name, self.reached):
                yield from _import_problems(module, "" if part == "*" else part)

    _importfrom = _import

    def _name(self, node: ast.Name) -> Iterator[str]:
        if id(node) in self.excused:
            return
        if node.id in rules.REFUSED_NAMES or (is_dunder(node.id) and node.id not in rules.ALLOWED_DUNDER_NAMES):
            yield f"it uses {node.id}, which no answer needs"
        elif id(node) in self.handed_on:
            yield f"it hands on {node.id}, so that what becomes of it cannot be read here"

    def _attribute(self, node: ast.Attribute) -> Iterator[str]:
        root, parts = chain(node, self.names)
        if node.attr in rules.FRAMES:
            yield f"it reads .{node.attr}, which leads into the code that runs it"
        elif is_dunder(node.attr) and node.attr not in rules.ALLOWED_DUNDER_ATTRIBUTES and not _sets_a_frozen(node):
            yield f"it reads .{node.attr}, which no answer needs"
        elif root:
            yield from _part_problems(root, parts)
        elif node.attr in rules.REFUSED_ANYWHERE:
            yield f"it uses .{node.attr}, which no answer needs"

    def _matchclass(self, node: ast.MatchClass) -> Iterator[str]:
        for name in node.kwd_attrs:
            if is_dunder(name) or name in rules.FRAMES:
                yield f"it reads .{name} by a pattern"

    def _call(self, node: ast.Call) -> Iterator[str]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("getattr", "hasattr") and len(node.args) > 1 and id(node) not in self.excused:
            asked = constant(node.args[1])
            if asked is None or asked.startswith("_") or asked in rules.FRAMES:
                yield f"it calls {name} with a name that cannot be read here, or with one that is private"
        if name == "type" and len(node.args) > 1:
            yield "it makes a class by a call of type"
        if isinstance(node.func, ast.Attribute) and node.func.attr == "__setattr__":
            asked = constant(node.args[1]) if len(node.args) > 1 else None
            own = bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id == "self"
            if not own or asked is None or asked.startswith("__"):
                yield "it sets an attribute of another object by __setattr__"

    def _classdef(self, node: ast.ClassDef) -> Iterator[str]:
        for base in node.bases:
            name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else "a call"
            if name in rules.VALUES or not isinstance(base, ast.Attribute | ast.Name | ast.Subscript):
                yield f"class {node.name} is made of {name}, so that it can pass for a value"
        if any(keyword.arg == "metaclass" for keyword in node.keywords):
            yield f"class {node.name} has a metaclass"
        for child in node.body:
            for name in _bound(child):
                if is_dunder(name) and name not in rules.ALLOWED_DUNDER_METHODS:
                    yield f"class {node.name} defines {name}, with which an object can say what is not so"

    def _constant(self, node: ast.Constant) -> Iterator[str]:
        if isinstance(node.value, str) and node.value != "__main__" and _HIDDEN_NAME.search(node.value):
            yield f"the text {node.value[:40]!r} has a hidden name of Python in it"

    def _store(self, node: ast.Name | ast.Attribute | ast.Subscript) -> Iterator[str]:
        if isinstance(node, ast.Name):
            return
        place, of_class = node, False
        while isinstance(place, ast.Attribute | ast.Subscript | ast.Call):
            place = place.func if isinstance(place, ast.Call) else place.value
            of_class |= isinstance(place, ast.Attribute) and place.attr == "__class__"
        root = place.id if isinstance(place, ast.Name) else ""
        if root in self.names:
            yield f"it changes {ast.unparse(node)[:60]}, which is not its own"
        elif isinstance(node, ast.Attribute) and is_dunder(node.attr):
            yield f"it changes .{node.attr} of an object"
        elif of_class or root == "type" or root in self.classes:
            yield f"it changes {ast.unparse(node)[:60]}, a class"


def _import_problems(module: str, name: str) -> Iterator[str]:
    root, *rest = module.split(".")
    said = f"from {module} import {name}" if name else f"import {module}"
    parts = [*rest, *([name] if name else [])]
    if root not in rules.IMPORTS:
        yield f"`{said}`: an answer has no need of {root or 'it'}"
    elif refused := _refused(root, parts):
        yield f"`{said}`: an answer has no need of {refused}"


def _part_problems(root: str, parts: list[str]) -> Iterator[str]:
    """What is wrong with `root.part.part`, where root is a module that was imported, or a part of one."""
    module, *rest = root.split(".")
    if not _refused(module, [*rest, *parts][:-1]) and _refused(module, [*rest, *parts]):
        yield f"it uses {'.'.join([root, *parts])}, which no answer needs"


def _refused(module: str, parts: list[str]) -> str:
    """The first part of `module.part.part` that no answer needs; empty if there is none."""
    whole = module
    for part in parts:
        only = rules.ONLY.get(whole)
        if _is_refused(whole, part) or (only is not None and part not in only):
            return part
        # A library that a module has imported is that library, by whatever way it is reached.
        whole = part if part in rules.IMPORTS and whole != part else f"{whole}.{part}"
    return ""


def _is_refused(whole: str, part: str) -> bool:
    if whole.partition(".")[0] == "nanolm":
        return part in rules.REFUSED_ANYWHERE
    is_private = part.startswith("_") and part not in rules.ALLOWED_PRIVATE
    return is_private or (part in rules.REFUSED_PARTS and f"{whole}.{part}" not in rules.ALLOWED_PARTS)


def _sets_a_frozen(node: ast.Attribute) -> bool:
    return node.attr == "__setattr__" and isinstance(node.value, ast.Name) and node.value.id == "object"


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, Definition):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [part.id for target in targets if target for part in ast.walk(target) if isinstance(part, ast.Name)]


def _docstrings(node: ast.AST) -> Iterator[ast.AST]:
    """The texts that stand alone as statements, where nothing uses them."""
    for part in ast.walk(node):
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
            yield part.value
