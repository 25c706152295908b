"""The self-test of week 0: whether a short answer is right, and if not, what the mistake probably is.

It needs NumPy and nothing else. No answer is graded, kept or sent anywhere.
"""

from typing import Any

import numpy as np

from .questions import INDEXING, QUESTIONS, SHAPES, SOFTMAX

OPEN = "not answered yet"
_said: dict[int, bool | None] = {}


def answer(number: int, typed: Any) -> None:
    """Say whether the answer to a question is right, and if not, what the mistake probably is; `...` is no answer yet.

    Raises:
        ValueError: there is no such question.
    """
    if number not in QUESTIONS:
        raise ValueError(f"number is {number}; questions are 1 to {len(QUESTIONS)}")
    verdict = judged(number, typed)
    _said[number] = None if verdict == OPEN else verdict == "right"
    print(f"{number}: {verdict}")


def judged(number: int, typed: Any) -> str:
    """Return "right", or what is to be said of another answer."""
    question = QUESTIONS[number]
    if typed is ...:
        return OPEN
    try:
        with np.errstate(all="ignore"):
            given = question.ask(typed)
    except Exception as error:  # the reader's own expression
        return f"it ends with {type(error).__name__}: {error}"
    if given is ...:
        return OPEN
    if given is None:
        return "it gives nothing back: is there a return?"
    if _same(given, question.right):
        return "right"
    says = next((says for wrong, says in question.mistakes if _same(given, wrong)), None)
    return f"not yet: {says}" if says else f"not yet: {question.think}"


def result() -> None:
    """Print how many answers are right, by topic, and where catching up is worth the time."""
    for topic in (SHAPES, SOFTMAX, INDEXING):
        numbers = [number for number, question in QUESTIONS.items() if question.topic == topic]
        right = sum(_said.get(number) is True for number in numbers)
        left = sum(_said.get(number) is None for number in numbers)
        advice = "not done yet" if left else "ready" if right >= len(numbers) - 1 else "catch up first, see below"
        print(f"{topic:8} {right} of {len(numbers)} right, {left} open: {advice}")


def _same(given: Any, right: Any) -> bool:
    """Whether two answers are the same numbers in the same shape, tuples and arrays alike, to two decimals."""
    try:
        one, other = np.asarray(given, dtype=float), np.asarray(right, dtype=float)
    except (TypeError, ValueError):
        return False
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=0, atol=0.006, equal_nan=True))
