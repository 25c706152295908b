"""What lessons print beside a comparison: figures of the same rounds, which must not contradict it."""

import ast
import re

import pytest

from course.lab.verdicts import ROUNDS_TO_TELL
from course.paths import ROOT

LESSONS = sorted((ROOT / "solutions").glob("week*.py"))
_COMPARES = re.compile(r"\b(which_is_faster|ratio)\(")
# A time or a rate made of the fastest round: the ratio beside it is a median, by rounds.
_FASTEST_ROUND = re.compile(r"\{[^{}]*\bmin\((seconds|rounds|times|\w+_rounds)\b[^{}]*\}")


def contradictions(text: str) -> list[str]:
    """What a lesson's cells print of fastest rounds beside a comparison by rounds."""
    cells = [cell for cell in text.split("\n# %%") if _COMPARES.search(cell)]
    return [found.group() for cell in cells for found in _FASTEST_ROUND.finditer(cell)]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_no_lesson_prints_the_fastest_round_beside_a_comparison_by_all_of_them(lesson):
    assert not contradictions(lesson.read_text(encoding="utf-8"))


def test_a_rate_of_the_fastest_round_beside_a_comparison_is_found():
    cell = '\n# %%\nprint(f"{B * n / min(seconds):,.0f} tokens/s; {which_is_faster(rounds, name, other)}")\n'
    assert contradictions(cell) == ["{B * n / min(seconds):,.0f}"]


_ROUNDS = ("take_turns", "side_by_side", "timed", "rounds_allowed", "rounds")


def too_few_rounds(text: str) -> list[str]:
    """The measurements of a lesson in too few rounds to say anything of them, as they are written."""
    nodes = list(ast.walk(ast.parse(text)))
    calls = [node for node in nodes if isinstance(node, ast.Call) and _name(node) in _ROUNDS]
    few = [call for call in calls if any(n < ROUNDS_TO_TELL for n in _constants(call))]
    return [ast.unparse(node) for node in [*few, *filter(_ends_early, nodes)]]


def _ends_early(node: ast.AST) -> bool:
    """Whether rounds go on only below a literal smaller than what a verdict takes: `round_number < 2`."""
    if not (isinstance(node, ast.Compare) and re.search(r"(?<![a-z])rounds?(?![a-z])", ast.unparse(node.left))):
        return False
    below = zip(node.ops, node.comparators, strict=True)
    limits = [each.value for op, each in below if isinstance(op, ast.Lt) and isinstance(each, ast.Constant)]
    return any(isinstance(limit, int) and limit < ROUNDS_TO_TELL for limit in limits)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _constants(call: ast.Call) -> list[int]:
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "repeats")]
    return [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, int)]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_every_measurement_of_a_lesson_has_rounds_enough_to_tell(lesson):
    assert not too_few_rounds(lesson.read_text(encoding="utf-8"))


@pytest.mark.parametrize("call", ["take_turns(calls, 2)", "take_turns(calls, repeats=2)", "rounds_allowed(1)"])
def test_a_measurement_in_too_few_rounds_is_found(call):
    assert too_few_rounds(f"for _ in {call}:\n    pass") == [call]


def test_a_loop_that_may_end_after_too_few_rounds_is_found():
    assert too_few_rounds("if round_number < 2 or seconds < 3:\n    pass") == ["round_number < 2"]
    assert not too_few_rounds("if round_number < ROUNDS_TO_TELL or ground < 1:\n    pass")
