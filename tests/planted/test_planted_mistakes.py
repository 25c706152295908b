"""Every mistake in planted/mistakes.py fails the test meant for it, with a message that names it.

Here as a mistake of the engine, which all tests can see; `course audit` grades those of exercises as answers. Those in
files that no exercise is in are tried at once, the others with the slow tests.
"""

from functools import cache

import pytest
from planted.mistakes import MISTAKES
from planting import planted

from course.grading.implementation import Implementation
from course.grading.runner import TESTS, Run, run_test
from course.paths import read
from course.registry import registry

ASKED = {exercise.file for exercise in registry()}
_SECONDS = 60  # a mistake may well loop


def run(test: str) -> Run:
    """Run one test by name, wherever it is."""
    files = [path for path in sorted(TESTS.rglob("test_*.py")) if f"def {test}(" in read(path)]
    assert files, f"no file under tests/ defines {test}"
    return run_test(test, files, Implementation(), _SECONDS)


@cache
def passes_unplanted(test: str) -> bool:
    return run(test).passed


def case(mistake):
    marks = [pytest.mark.slow] if mistake["file"] in ASKED else []
    return pytest.param(mistake, marks=marks, id=mistake["name"])


@pytest.mark.parametrize("mistake", [case(mistake) for mistake in MISTAKES])
def test_a_planted_mistake_fails_its_test_by_name(mistake):
    assert passes_unplanted(mistake["test"]), f"{mistake['test']} fails without any mistake"
    with planted(mistake["file"], mistake["old"], mistake["new"]):
        found = run(mistake["test"])
    assert not found.error, found.error
    messages = [outcome.message for outcome in found.outcomes if not outcome.passed]
    assert messages, f"{mistake['test']} passes with the mistake in place"
    named = any(mistake["says"] in message for message in messages)
    assert named, f"no message says {mistake['says']!r}; they say\n" + "\n".join(messages)


def test_every_planted_mistake_has_a_name_of_its_own():
    names = [mistake["name"] for mistake in MISTAKES]
    assert len(set(names)) == len(names)


def test_planting_changes_the_engine_for_the_length_of_a_with_and_no_longer():
    from nanolm.speculative import expected_tokens_per_round

    with planted("speculative/speedup.py", "return float(sum(alpha**i for i in range(gamma + 1)))", "return -1.0"):
        assert expected_tokens_per_round(0.5, 1) == -1.0
    assert expected_tokens_per_round(0.5, 1) == 1.5


@pytest.mark.parametrize(
    ("old", "complaint"),
    [("no such text", "occurs 0 times"), ("return", "occurs [0-9]+ times"), ("γ tokens,", "changes no")],
)
def test_a_mistake_that_is_planted_nowhere_or_in_two_places_is_refused(old, complaint):
    with pytest.raises(ValueError, match=complaint), planted("speculative/acceptance.py", old, "x"):
        pass
