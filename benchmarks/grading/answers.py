"""What a made-up student writes into the cell of an exercise: rightly, wrongly as people do, or so that it never ends.

Right answers are the engine's and those of tests/right/, wrong ones are mistakes of tests/planted/.
"""

import ast
import re
from functools import cache
from random import Random

from course.audit.cases import mistakes, right_in
from course.paths import ROOT
from course.registry import Exercise
from course.text.cells import grade_id
from course.text.files import load
from course.text.source import body_span

_MARKER = re.compile(r"(?m)^ *### (?:BEGIN|END) SOLUTION\n?")
_ACCIDENTS = {
    "loop": "steps = 0\nwhile steps < 10:\n    step = steps + 1",
    "exit": "import sys\nsys.exit()",
    "os._exit": "import os\nos._exit(1)",
    "recursion": "return {name}({arguments})",
    "memory": "table = [0] * 10**11\nreturn table[0]",
    "debugger": "print(locals())\nreturn",
}
ACCIDENTS = tuple(_ACCIDENTS)


@cache
def solved(exercise: Exercise) -> str:
    """Return the cell of the solution notebook, without nbgrader's markers."""
    cells = load(ROOT / exercise.notebook.replace("notebooks/", "solutions/", 1))["cells"]
    return _MARKER.sub("", next(cell["source"] for cell in cells if grade_id(cell) == exercise.slug))


def right(exercise: Exercise, draw: Random) -> str:
    """Return a right answer: half of the time the engine's own, else one in another style."""
    styles = [each.text for each in right_in(exercise)]
    return draw.choice(styles) if styles and draw.random() < 0.5 else solved(exercise)


def wrong(exercise: Exercise, draw: Random) -> str:
    """Return the solution with one planted mistake in it."""
    text = solved(exercise)
    fitting = [each for each in mistakes() if each.file == exercise.file and text.count(each.old) == 1]
    mistake = draw.choice(fitting)
    return text.replace(mistake.old, mistake.new)


def accident(exercise: Exercise, kind: str) -> str:
    """Return a function or first method whose body is one of ACCIDENTS."""
    text = solved(exercise)
    tree = ast.parse(text)
    name = exercise.targets[0].rpartition(".")[2]
    node = next(each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == name)
    lines = text.split("\n")
    first, last = body_span(node, lines, exercise.name)
    arguments = [argument.arg for argument in node.args.args]
    called = f"self.{name}" if arguments[:1] == ["self"] else name
    words = {"name": called, "arguments": ", ".join(each for each in arguments if each != "self")}
    indent = " " * (node.col_offset + 4)
    body = [indent + line for line in _ACCIDENTS[kind].format(**words).split("\n")]
    return "\n".join([*lines[: first - 1], *body, *lines[last:]])
