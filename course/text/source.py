"""Python source as lines and trees: find a definition, its body, the names it uses, the imports it needs.

Text stays text. A tree only says where to cut, so comments and layout of the engine survive every copy.
"""

import ast
import builtins
import symtable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from ..errors import CourseError

_BUILT_IN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


@dataclass(frozen=True)
class Module:
    """One file of the engine: its name ("speculative.acceptance"), its text and its tree."""

    name: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, name: str, text: str) -> "Module":
        """Return the parsed module; raise CourseError for a syntax error."""
        return cls(name, text, parse(text, path_of(name)))

    def find(self, target: str) -> Definition:
        """Return the definition of a function, class or "Class.method"; raise CourseError if there is none."""
        body, node = self.tree.body, None
        for part in target.split("."):
            found = {child.name: child for child in body if isinstance(child, Definition)}
            if part not in found:
                near = get_close_matches(part, found, n=3) or sorted(found)
                raise CourseError(f"{path_of(self.name)} defines no {target!r}; it defines {', '.join(near)}")
            node = found[part]
            body = node.body
        assert node is not None
        return node


def path_of(name: str) -> str:
    """Return the file of a module from the folder of its package: "speculative/acceptance.py"."""
    return f"{name.replace('.', '/')}.py"


def parse(text: str, where: str) -> ast.Module:
    """Return the tree of a Python text; raise CourseError with place and reason if it is not Python."""
    try:
        return tree_of(text)
    except SyntaxError as error:
        raise CourseError(f"{where}, line {error.lineno}: {error.msg}") from None
    except ValueError as error:  # null bytes
        raise CourseError(f"{where} cannot be read as Python: {error}") from None
    except (RecursionError, MemoryError):
        raise CourseError(f"{where} is nested too deeply to be read") from None


@lru_cache(maxsize=1024)
def tree_of(text: str) -> ast.Module:
    """Return the tree of a Python text, the same one for the same text: nobody changes it.

    A class hands in most cells as the lesson has them. Raises what `ast.parse` raises.
    """
    return ast.parse(text)


def first_line(node: ast.stmt) -> int:
    """Return the number of a statement's first line, a definition's decorators included."""
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])


def last_line(node: ast.stmt) -> int:
    """Return the number of a statement's last line."""
    assert node.end_lineno is not None  # whatever `parse` has read has one
    return node.end_lineno


def body_span(node: Definition, lines: list[str], where: str) -> tuple[int, int]:
    """Return the first and last line number (from 1) of a function's body, its docstring excluded.

    Raises:
        CourseError: no docstring (it is the exercise's specification), or nothing after it.
    """
    if not isinstance(node, Function) or ast.get_docstring(node) is None:
        raise CourseError(f"{where} needs a docstring to be an exercise: students implement from it")
    if len(node.body) < 2:
        raise CourseError(f"{where} has no body after its docstring: nothing is left to write")
    first, last = last_line(node.body[0]) + 1, last_line(node)
    while not lines[first - 1].strip():
        first += 1
    # A comment behind the last statement belongs to no node, and it may tell the answer.
    while last < len(lines) and lines[last].strip().startswith("#") and _indent(lines[last]) >= node.body[0].col_offset:
        last += 1
    return first, last


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def defined_names(text: str) -> set[str]:
    """Return the names that a piece of Python binds at its top level."""
    table = symtable.symtable(text, "cell", "exec")
    return {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}


def free_names(text: str) -> set[str]:
    """Return the global names that a piece of Python uses and does not define, built-in names left out."""
    return used_names(text) - defined_names(text)


def used_names(text: str) -> set[str]:
    """Return the global names that a piece of Python uses, also those that it binds; built-in names left out.

    A function that only sets a name by `global` uses it, too: others read it.
    """
    table = symtable.symtable(text, "cell", "exec")
    names, tables = set(), [table]
    while tables:
        scope = tables.pop()
        tables += scope.get_children()
        symbols = scope.get_symbols()
        names |= {s.get_name() for s in symbols if s.is_referenced() and (s.is_global() or scope is table)}
        names |= {s.get_name() for s in symbols if s.is_declared_global()}
    return names - _BUILT_IN


def origin(module: Module, name: str) -> str:
    """Return where an engine module has a name from: "torch.nn", "nanolm.cache.KVCache", or its own definition."""
    for node in module.tree.body:
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            if name == (alias.asname or alias.name.split(".")[0]):
                return f"{_absolute(node, module)}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
    return f"nanolm.{module.name}.{name}"


def import_lines(module: Module, names: set[str]) -> list[str]:
    """Return the import lines that give `names` to code taken out of an engine module, in that module's order.

    What the module imports is imported from the same place, what it defines from `nanolm.<module>`.

    Raises:
        CourseError: a name that the module neither imports nor defines.
    """
    left, lines = set(names), []
    for node in module.tree.body:
        if isinstance(node, ast.Import):
            wanted = [alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) in left]
            lines += [f"import {_alias(alias)}" for alias in wanted]
        elif isinstance(node, ast.ImportFrom):
            wanted = [alias for alias in node.names if (alias.asname or alias.name) in left]
            if wanted:
                lines.append(f"from {_absolute(node, module)} import {', '.join(map(_alias, wanted))}")
        else:
            continue
        left -= {alias.asname or alias.name.split(".")[0] for alias in wanted}
    own = left & defined_names(module.text)
    if left - own:
        unknown = ", ".join(sorted(left - own))
        raise CourseError(f"{path_of(module.name)} uses {unknown} without importing or defining it")
    return [*lines, f"from nanolm.{module.name} import {', '.join(sorted(own))}"] if own else lines


def _alias(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _absolute(node: ast.ImportFrom, module: Module) -> str:
    """Where an import of an engine module looks, from outside: one dot is the module's package, two are nanolm."""
    if not node.level:
        return node.module or ""
    package = module.name.split(".")[:-1]
    return ".".join(["nanolm", *package[: len(package) - node.level + 1], *filter(None, [node.module])])
