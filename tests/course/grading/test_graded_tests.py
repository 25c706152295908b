"""The tests that grade: each names its exercise, and each exercise has tests."""

import json
import re

import pytest

from course.grading.outcomes import targets_of
from course.grading.runner import PLUGINS, TESTS
from course.paths import ROOT, read
from course.registry import homes, registry

# Names that the course's specification fixes; they say what is tested rather than which function.
FIXED = {
    "test_residual_zeroes_tokens_the_draft_overrated",
    "test_output_distribution_equals_target_exactly",
    "test_rope_offset_matches_slicing",
    "test_kv_cache_matches_full_forward",
    "test_decode_step_llama3_h100_batch_32_numbers",
}


class Collected:
    """Keeps the tests that a run of pytest would run."""

    items: list

    def pytest_collection_modifyitems(self, items):
        self.items = list(items)


@pytest.fixture(scope="module")
def items():
    """Every marked test under tests/, as pytest collects it."""
    collected = Collected()
    files = [
        str(path) for path in sorted(TESTS.rglob("test_*.py")) if "pytest.mark.exercise(" in path.read_text("utf-8")
    ]
    arguments = ["--collect-only", "-qq", "-p", "no:cacheprovider", "--disable-plugin-autoload"]
    assert pytest.main([*arguments, *files], plugins=[collected]) == 0
    return [item for item in collected.items if targets_of(item)]


@pytest.fixture(scope="module")
def graded(items):
    """The same as (name with parameters, targets)."""
    return {(item.name, targets_of(item)) for item in items}


def test_every_exercise_has_a_test(graded):
    tested = {target for _, targets in graded for target in targets}
    missing = [name for exercise in registry() for name in exercise.targets if name not in tested]
    assert not missing, f"no test is marked exercise({missing[0]!r})"


def test_every_graded_test_is_named_after_its_function(graded):
    for name, targets in graded:
        functions = [target.split(".")[-1].strip("_") for target in targets]
        is_named = name.partition("[")[0] in FIXED or any(function in name for function in functions)
        assert is_named, f"{name} grades {targets} and names none of them"


def test_every_mark_names_an_exercise(graded):
    for name, targets in graded:
        unknown = {*targets} - {*homes()}
        assert not unknown, f"{name} is marked with {', '.join(unknown)}, which no lesson asks"


def test_every_graded_test_grades_one_module(graded):
    for name, targets in graded:
        assert len({homes().get(target) for target in targets}) == 1, f"{name} grades {targets}"


def test_every_test_that_a_lesson_names_exists():
    defined = {name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)\(", read(path))}
    for path in sorted((ROOT / "solutions").glob("week*.py")):
        missing = set(re.findall(r"`(test_\w+)`", read(path))) - defined
        assert not missing, f"{path.name} sends students to {', '.join(sorted(missing))}, which no test file defines"


def test_the_tests_of_an_exercise_are_where_its_command_looks(items):
    for exercise in registry():
        own = [item for item in items if {*exercise.targets} & {*targets_of(item)}]
        files = {item.path.relative_to(ROOT).as_posix() for item in own}
        assert files == {*exercise.tests}, f"{exercise.command} misses tests in {files - {*exercise.tests}}"


def test_the_runner_hands_over_the_plugins_that_conftest_names():
    # By name alone pytest would find them too, but only after a look through all that is installed.
    lines = read(ROOT / "tests" / "conftest.py").splitlines()
    assert f"pytest_plugins = {json.dumps(PLUGINS)}" in lines
