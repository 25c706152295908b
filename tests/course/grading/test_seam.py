"""NANOLM_IMPL from outside: what a student at a terminal sees."""

import contextlib
import io
import os
import re
import subprocess
import sys

import pytest

from course.paths import ROOT, write
from course.registry import find, registry


def run(implementation, *arguments):
    """Run pytest in the repository and return (exit code, everything printed)."""
    return python(implementation, "-m", "pytest", "-p", "no:cacheprovider", *arguments)


def python(implementation, *arguments):
    environment = {**os.environ, "NANOLM_IMPL": str(implementation), "PYTEST_ADDOPTS": ""}
    environment.pop("PYTEST_CURRENT_TEST", None)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("value", ["nowhere", "no/such/folder", "os", "3 x"])
def test_an_implementation_that_does_not_exist_is_one_line_and_an_error_code(value):
    code, said = run(value, "tests/speculative/test_acceptance.py")
    assert code not in (0, 1)
    (line,) = said.strip().splitlines()
    assert line.startswith(
        f"ERROR: NANOLM_IMPL is {value!r}, and there is no such package or folder; it must be nanolm"
    )


def test_untouched_exercises_fail_with_one_line_each_and_pass_nothing(untouched):
    code, said = run(untouched, "tests/speculative/test_acceptance.py")
    assert code == 1
    assert f"implementation under test: {untouched}" in said
    assert " passed" not in said and " skipped" not in said and "error" not in said.splitlines()[-1]
    lines = said[said.index("not written yet =") :].splitlines()[1:-1]
    lines = [line for line in lines if line]
    assert all(line.startswith("FAILED exercise 4.") for line in lines)
    assert any(find("residual_distribution").not_yet_written in line for line in lines)
    assert "Traceback" not in said and "NotYetWritten" not in said


def test_a_file_of_answers_that_is_not_python_is_named_with_its_line(tmp_path):
    write(tmp_path / "speculative" / "acceptance.py", "x = 1\ndef residual_distribution(:\n")
    code, said = run(tmp_path, "tests/speculative/test_acceptance.py", "-k", "residual_zeroes")
    assert code == 1 and "speculative/acceptance.py, line 2: invalid syntax" in said
    assert " passed" not in said


def test_a_folder_without_the_exercise_s_file_is_not_graded_by_the_reference(tmp_path):
    code, said = run(tmp_path, "tests/speculative/test_acceptance.py", "-k", "residual_zeroes")
    assert code == 1 and "speculative/acceptance.py does not exist" in said
    assert " passed" not in said


def listing(exercises):
    """The tests that `--exercise name`, once for each exercise, selects of all files of graded tests."""
    tests = sorted({name for exercise in registry() for name in exercise.tests})
    names = [part for exercise in exercises for part in ("--exercise", exercise.name)]
    _, said = run("nanolm", "--collect-only", "-q", *tests, *names)
    return set(re.findall(r"(?m)^tests/.*(?=\n)", said))


def selected(exercise):
    """The tests that `check` selects."""
    from course.grading.implementation import Implementation
    from course.grading.outcomes import Collector

    collector = Collector(Implementation(), targets=exercise.targets)
    arguments = ["--collect-only", "-q", *exercise.tests, "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*arguments, "-c", str(ROOT / "pyproject.toml")], plugins=[collector])
    return {item.nodeid for item in collector.items}


def test_the_printed_command_selects_the_tests_that_check_selects_for_every_exercise():
    exercises = [find(number) for number in ("1.3", "3.4", "5.5", "9.13")]  # whose `-k` used to pick tests of others
    for exercise in exercises:
        assert exercise.command.endswith(f" --exercise {exercise.name}")
    each = [selected(exercise) for exercise in exercises]
    # No test is of two of these, so one listing of all shows what each of them lacks, and what it has too much.
    assert all(each) and sum(map(len, each)) == len(set().union(*each))
    assert listing(exercises) == set().union(*each)


def test_an_exercise_that_does_not_exist_is_one_line():
    code, said = run("nanolm", "tests/budget/test_budget.py", "--exercise", "nothing_like_it")
    assert code not in (0, 1) and "no exercise 'nothing_like_it'" in said


def test_a_failure_in_the_editor_is_the_sentence_of_check_without_a_traceback(tmp_path):
    from answers import notebook_text

    text = notebook_text("speculative.acceptance").replace("excess / total", "excess")
    write(tmp_path / "speculative" / "acceptance.py", text)
    code, said = run(tmp_path, "tests/speculative/test_acceptance.py", "--exercise", "4.1")
    assert code == 1
    assert "not normalised: divide max(p - q, 0) by its sum" in said
    assert "Traceback" not in said and "def residual_distribution" not in said
