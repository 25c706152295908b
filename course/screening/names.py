"""Small questions about names in a syntax tree."""

import ast
from collections.abc import Mapping


def is_dunder(name: str) -> bool:
    """Return whether a name is one of Python's own, `__name__`."""
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def imported(tree: ast.AST) -> dict[str, str]:
    """Return every name that an import binds, wherever it stands: "F" to "torch.nn.functional"."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            module = "nanolm." * bool(node.level) + (node.module or "")
            found |= {alias.asname or alias.name: f"{module.rstrip('.')}.{alias.name}" for alias in node.names}
    return found


def chain(node: ast.Attribute, names: Mapping[str, str]) -> tuple[str, list[str]]:
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
