"""What the tests of an exercise can reach of its files: names, and what runs when a file is imported."""

import ast
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ..registry import Exercise
from ..text.source import Definition, Function, Module
from . import rules
from .names import bindings


def reached_names(exercise: Exercise, modules: Mapping[str, Module]) -> set[str]:
    """The names of definitions that code reaches: from the targets and from what runs at the import, by mention."""
    bodies: dict[str, list[ast.AST]] = {}
    reached: set[str] = set()
    ahead = {part for target in exercise.targets for part in target.split(".")}
    for module in modules.values():
        for node in module.tree.body:
            if isinstance(node, Definition):
                bodies.setdefault(node.name, []).append(node)
                ahead |= set().union(*map(_mentioned, run_at_import(node)), set())
            elif not isinstance(node, ast.Import | ast.ImportFrom):
                ahead |= _mentioned(node)
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead |= set().union(*map(_mentioned, bodies.get(name, [])), set())
    return reached


def run_at_import(node: Definition) -> Iterator[ast.AST]:
    """Yield what of a definition runs where it stands, before anybody calls it."""
    yield from node.decorator_list
    if isinstance(node, Function):
        args = node.args
        named = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
        yield from [*args.defaults, *filter(None, args.kw_defaults)]
        yield from filter(None, [*(arg.annotation for arg in named), node.returns])
        return
    yield from [*node.bases, *(keyword.value for keyword in node.keywords)]
    for child in node.body:
        if isinstance(child, Definition):
            yield from run_at_import(child)
        else:
            yield child


def _mentioned(node: ast.AST) -> set[str]:
    names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    return names | {child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute)}


def is_left_lying(module: str, name: str, reached: set[str]) -> bool:
    """Return whether nothing that runs mentions the name that an import binds: plots and debuggers leave such lines."""
    return name != "*" and name not in reached and module.partition(".")[0] not in rules.OURS


def without_lying_imports(module: Module, reached: set[str]) -> str:
    """Return a file's text, empty where an import of a foreign library is left lying: it may not be installed here."""
    lines = module.text.splitlines(keepends=True)
    body = module.tree.body
    shared = {line for a, b in pairwise(body) if a.end_lineno == (line := b.lineno)}
    for node in body:
        if _is_foreign(node, reached) and shared.isdisjoint((node.lineno, node.end_lineno)):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = "\n"
    return "".join(lines)


def _is_foreign(node: ast.stmt, reached: set[str]) -> bool:
    """Whether a statement imports nothing but what is left lying and what answers have no need of."""
    bound = [(module, name) for module, _, name in bindings(node)]
    return bool(bound) and all(
        is_left_lying(module, name, reached) and module.partition(".")[0] not in rules.IMPORTS for module, name in bound
    )
