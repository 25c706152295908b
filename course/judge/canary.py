"""A mistake that must fail in the process that has run an answer: where it passes, the judge has been changed."""

import ast
from collections.abc import Mapping, Sequence

from ..audit.cases import Mistake, mistakes
from ..building.stubs import stub_file
from ..errors import CourseError
from ..paths import ROOT, read
from ..registry import Exercise
from ..text.source import Module

_ENDLESS = "still running"  # what is said of a mistake that takes its whole time limit to be found


def canary(exercise: Exercise, tests: Mapping[str, Sequence[str]], seed: int) -> dict[str, str]:
    """Return the text of the exercise's file with a mistake, and the test function that must fail ("": any).

    Args:
        tests: what each test function grades.
        seed: chooses one of the planted mistakes; where there is none, the exercise is left unwritten.
    """
    usable = [mistake for mistake in mistakes() if _fits(mistake, exercise, tests)]
    if usable:
        mistake = usable[seed % len(usable)]
        return {"text": mistake.text, "test": mistake.test}
    return {"text": stub_file(_engine(exercise), [exercise]), "test": ""}


def _fits(mistake: Mistake, exercise: Exercise, tests: Mapping[str, Sequence[str]]) -> bool:
    if mistake.file != exercise.file or set(tests.get(mistake.test, ())).isdisjoint(exercise.targets):
        return False
    if _ENDLESS in mistake.says:
        return False
    try:
        wrong, right = Module.parse(exercise.module, mistake.text), _engine(exercise)
        return any(ast.dump(wrong.find(target)) != ast.dump(right.find(target)) for target in exercise.targets)
    except CourseError:  # the engine has moved on
        return False


def _engine(exercise: Exercise) -> Module:
    return Module.parse(exercise.module, read(ROOT / "nanolm" / exercise.file))
