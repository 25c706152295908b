"""Small questions about names in a syntax tree."""

import ast
from collections.abc import Mapping
from typing import TypeGuard


def is_dunder(name: str) -> bool:
    """Return whether a name is one of Python's own, `__name__`."""
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def imported(tree: ast.AST) -> dict[str, str]:
    """Return every name that an import binds, wherever it stands, or that is set to such a name or a part of it.

    "F" to "torch.nn.functional", also after `F = torch.nn.functional`.
    """
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            whole = {alias.asname: alias.name for alias in node.names if alias.asname}
            roots = [alias.name.partition(".")[0] for alias in node.names if not alias.asname]
            found |= whole | dict(zip(roots, roots, strict=True))
        elif isinstance(node, ast.ImportFrom):
            found |= {name: f"{module}.{part}" for module, part, name in bindings(node)}
    return found | _renamed(tree, found)


def bindings(node: ast.AST) -> list[tuple[str, str, str]]:
    """Return (module, what of it, the name it is bound to) for each part of an import; any other node has none.

    ("torch.nn", "", "torch") of `import torch.nn`; the module of a relative import is the engine's.
    """
    if isinstance(node, ast.Import):
        return [(alias.name, "", alias.asname or alias.name.partition(".")[0]) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        module = ("nanolm." * bool(node.level) + (node.module or "")).rstrip(".")
        return [(module, alias.name, alias.asname or alias.name) for alias in node.names]
    return []


def _renamed(tree: ast.AST, names: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and isinstance(value, ast.Name | ast.Attribute):
            root, parts = chain(value, {**names, **found})
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if root and isinstance(target, ast.Name):
                    found[target.id] = ".".join([root, *parts])
    return found


def classes_held(tree: ast.AST) -> set[str]:
    """Return every name that is set to the class of an object: after `c = type(x)`, to set `c.sum` changes all of them.

    Not that of `self`, which is the answer's own.
    """
    held: set[str] = set()
    for node in ast.walk(tree):
        value, targets = getattr(node, "value", None), getattr(node, "targets", [getattr(node, "target", None)])
        of = value.args[0] if _is_call_of(value, "type") and len(value.args) == 1 else None
        of = value.value if isinstance(value, ast.Attribute) and value.attr == "__class__" else of
        if of is not None and not (isinstance(of, ast.Name) and of.id == "self"):
            held |= {target.id for target in targets if isinstance(target, ast.Name)}
    return held


def handed_on(tree: ast.AST) -> set[int]:
    """Return the ids of names that stand where they get another name: a whole module, getattr, type.

    `[torch]`, `f(torch)` and `t=torch` in a signature; not `t = torch`, which `imported` follows.
    """
    nodes = list(ast.walk(tree))
    modules = {name for node in nodes if isinstance(node, ast.Import) for _, _, name in bindings(node)}
    of_attributes = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    assigned = {id(node.value) for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr)}
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    asked = {id(node.args[0]) for node in nodes if _is_call_of(node, "getattr", "hasattr") and node.args}
    loads = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return {
        id(node)
        for node in loads
        if (node.id in modules and id(node) not in of_attributes | assigned | asked)
        or (node.id == "getattr" and id(node) not in called)
        or (node.id == "type" and id(node) in assigned)
    }


def _is_call_of(node: ast.AST | None, *names: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def chain(node: ast.Attribute | ast.Name, names: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return (what was imported, the attributes read of it) of `F.softmax`; ("", …) where its root is no import."""
    parts: list[str] = []
    place: ast.expr = node
    while isinstance(place, ast.Attribute):
        parts.insert(0, place.attr)
        place = place.value
    root = names.get(place.id, "") if isinstance(place, ast.Name) else ""
    return root, parts


def constant(node: ast.expr) -> str | None:
    """Return the text of a literal; None for any other expression."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def excused(tree: ast.AST) -> set[int]:
    """Return the ids of calls, and of the names they call, that are harmless as they stand.

    `f(**vars(self.x))` copies an object's values; `getattr(self.x, name)` and `setattr(self.x, name, …)` where `name`
    runs over texts that stand there to be read.
    """
    found: set[ast.AST] = set()
    spelled = {name for node in ast.walk(tree) if isinstance(node, ast.For) for name in _spelled(node)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        copied = [keyword.value for keyword in call.keywords if keyword.arg is None]
        found |= {value for value in copied if _calls(value, "vars")}
        asked = call.args[1] if len(call.args) > 1 else None
        if _calls(call, "getattr", "setattr") and isinstance(asked, ast.Name) and asked.id in spelled:
            found.add(call)
    return {id(part) for call in found if isinstance(call, ast.Call) for part in (call, call.func)}


def _calls(node: ast.AST, *names: str) -> bool:
    """Whether a node is a call of one of these names with `self`, or a part of it, for its first argument."""
    if not (_is_call_of(node, *names) and node.args):
        return False
    place = node.args[0]
    while isinstance(place, ast.Attribute) and not is_dunder(place.attr):
        place = place.value
    return isinstance(place, ast.Name) and place.id == "self"


def _spelled(loop: ast.For) -> list[str]:
    """The loop's variables that run over nothing but texts written in it, none of them private."""
    rows = loop.iter.elts if isinstance(loop.iter, ast.Tuple | ast.List) else []
    if isinstance(loop.target, ast.Name):
        columns = {loop.target.id: rows}
    elif isinstance(loop.target, ast.Tuple) and all(isinstance(row, ast.Tuple | ast.List) for row in rows):
        cells = zip(*(getattr(row, "elts", []) for row in rows), strict=False)
        columns = {getattr(part, "id", ""): each for part, each in zip(loop.target.elts, cells, strict=False)}
    else:
        return []
    return [name for name, each in columns.items() if each and all(_is_public(constant(cell)) for cell in each)]


def _is_public(text: str | None) -> bool:
    return text is not None and not text.startswith("_")
