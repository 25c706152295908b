"""No file of exercises/ prints the answer to what it asks."""

import ast
import functools
import textwrap
from collections.abc import Iterator

import pytest
from giveaways import largest_piece
from planting import planted

from course.building.stubs import stub_file
from course.grading.implementation import Implementation
from course.grading.runner import run_exercises
from course.paths import ROOT, read
from course.registry import Exercise, registry
from course.text.source import Function, Module, body_span, free_names

ASKED = [(exercise, target) for exercise in registry() for target in exercise.targets]


def module_of(exercise: Exercise) -> Module:
    return _parsed(exercise.module, exercise.file)


@functools.cache
def _parsed(module: str, file: str) -> Module:
    return Module.parse(module, read(ROOT / "nanolm" / file))


@functools.cache
def stub_of(file: str) -> str:
    module = next(exercise.module for exercise in registry() if exercise.file == file)
    return stub_file(_parsed(module, file), registry())


@pytest.mark.parametrize(("exercise", "target"), ASKED, ids=lambda value: value if isinstance(value, str) else "")
def test_an_exercise_file_does_not_print_the_body_that_it_asks_for(exercise, target):
    found = largest_piece(module_of(exercise).find(target), stub_of(exercise.file))
    assert not found.tells, (
        f"exercises/{exercise.file} asks for {target} and prints {found.share:.0%} of it elsewhere:\n{found.piece}"
    )


ANSWER = '''
def turned(x, offset):
    """Return x turned."""
    if offset < 0:
        raise ValueError("offset")
    cos, sin = angles(x, offset)
    return addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)
'''


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        ("def other(y, start):\n    c, s = angles(y, start)\n    return c", False),
        ("def other(q, c, s):\n    return 2 * addcmul(q * c, q.roll(q.shape[-1] // 2, dims=-1), s)", True),
        ('def table():\n    """A turn is `x * c + x.roll(x.shape[-1] // 2, dims=-1) * s`."""', True),
        ("def other(x, offset):\n    if offset < 0:\n        raise ValueError('offset')\n    return x", False),
        ("def other(x, y):\n    return x * y", False),
    ],
)
def test_a_piece_of_an_answer_is_found_whatever_its_variables_are_called(text, tells):
    (answer,) = ast.parse(ANSWER).body
    assert isinstance(answer, ast.FunctionDef)
    found = largest_piece(answer, text)
    assert found.tells == tells, found


@pytest.mark.parametrize("exercise", registry(), ids=lambda exercise: exercise.name)
def test_an_answer_needs_no_private_name_of_the_engine(exercise):
    module = module_of(exercise)
    for target in exercise.targets:
        answer = module.find(target.partition(".")[0])  # a notebook's cell has the whole class
        lines = module.text.splitlines()[answer.lineno - 1 : answer.end_lineno]
        private = {name for name in free_names("\n".join(lines)) if name.startswith("_")}
        assert not private, f"the cell of {target} imports {private}, which a student has to read: make them public"


# --- the same, by doing it ---------------------------------------------------------------------------------------


def helpers(module: Module, target: str) -> Iterator[tuple[str, Function]]:
    """What else the file defines that could be pasted: it needs no argument that the target has not."""
    owner = target.rpartition(".")[0]
    asked = {name for exercise in registry() if exercise.module == module.name for name in exercise.targets}
    for node in module.tree.body:
        for name, function in _functions(node):
            pasted = ast.unparse(function.body)
            alike = not owner or name.rpartition(".")[0] in (owner, "") or name.endswith(f".{target.split('.')[-1]}")
            if name not in asked and alike and "super()" not in pasted and "return " in pasted:
                yield name, function


def _functions(node: ast.stmt) -> Iterator[tuple[str, Function]]:
    if isinstance(node, Function):
        yield node.name, node
    elif isinstance(node, ast.ClassDef):
        yield from ((f"{node.name}.{child.name}", child) for child in node.body if isinstance(child, Function))


def arguments(function: Function) -> set[str]:
    return {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}


PASTES = [
    (exercise, target, name)
    for exercise, target in ASKED
    for name, function in helpers(module_of(exercise), target)
    if arguments(function) <= arguments(module_of(exercise).find(target))  # pyright: ignore[reportArgumentType]
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exercise", "target", "name"), PASTES, ids=[f"{target} from {name}" for _, target, name in PASTES]
)
def test_no_helper_s_body_pasted_into_a_stub_passes_its_tests(exercise, target, name):
    module = module_of(exercise)
    lines = module.text.splitlines()
    node, other = module.find(target), module.find(name)
    first, last = body_span(node, lines, target)
    start = other.body[1 if ast.get_docstring(other) else 0].lineno
    pasted = textwrap.dedent("\n".join(lines[start - 1 : other.end_lineno]))
    new = textwrap.indent(pasted, " " * node.body[0].col_offset)
    with planted(exercise.file, "\n".join(lines[first - 1 : last]), new):
        run = run_exercises([exercise], Implementation(), seconds=10)
    assert not run.passed, f"{name}, pasted into the stub of {target}, passes all of its tests: it is the answer"
