"""A run without the slow tests says which those are (helpers/left_out.py)."""

import os
import subprocess
import sys

import pytest

from course.paths import ROOT

TESTS = """
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("n", range(3))
def test_long(n): pass

def test_short(): pass
"""


def said(folder, *options):
    """What a run of the tests above prints."""
    (folder / "test_two.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "left_out", "-p", "no:cacheprovider", "-c", os.devnull]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests" / "helpers"), "PYTHONUTF8": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [*command, "--rootdir", str(folder), "-o", "markers=slow: ", *options, "test_two.py"],
        **dict(cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["one process", "two"])
def test_slow_tests_that_are_left_out_are_named_once_with_their_number(processes, tmp_path):
    found = said(tmp_path, "-m", "not slow", *processes)
    assert found.count("make nightly runs them too") == 1
    assert "Left out, being slow (3)" in found and "     3 test_two.py::test_long\n" in found
    assert "test_short" not in found


@pytest.mark.parametrize("options", [[], ["-k", "short"]], ids=["all", "by name"])
def test_nothing_is_said_of_slow_tests_that_run_or_were_not_asked_for(options, tmp_path):
    assert "Left out" not in said(tmp_path, *options)
