"""course gradescope: the archive, laid out and run as Gradescope does, for a submission as students upload it."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from submissions import cell_of, put, right, with_body

from course.bundles.autograder import grade, main
from course.bundles.gradescope import autograder_files, gradescope
from course.errors import CourseError
from course.judge.marks import PASSED, SUSPICIOUS, mark
from course.registry import registry

WEEK4 = [exercise for exercise in registry() if exercise.week == 4]


class Lenient:
    """A judge that gives full points, or finds one exercise suspicious."""

    def __init__(self, suspicious=""):
        self.suspicious = suspicious

    def grade(self, files, exercises, seed):
        (exercise,) = exercises
        if exercise.name == self.suspicious:
            return [mark(exercise, seed, SUSPICIOUS, "look at it")]
        return [mark(exercise, seed, PASSED, "well done", exercise.points)]


@pytest.fixture(scope="module")
def autograder(tmp_path_factory):
    """A folder as /autograder is when a submission has come: source/, run_autograder, submission/, results/."""
    here = tmp_path_factory.mktemp("autograder")
    with zipfile.ZipFile(gradescope(4, here)) as archive:
        archive.extractall(here / "source")
    shutil.copy(here / "source" / "run_autograder", here / "run_autograder")
    (here / "results").mkdir()
    # Where the packages are, in the place of what setup.sh makes.
    (here / "venv" / "bin").mkdir(parents=True)
    (here / "venv" / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    (here / "venv" / "bin" / "python").chmod(0o755)
    return here


@pytest.mark.skipif(sys.platform == "win32", reason="run_autograder is a shell script, for Gradescope's Linux")
def test_run_autograder_gives_each_exercise_what_it_deserves(autograder):
    wrong = with_body(right(), "residual_distribution", "return target_probs")
    cell_of(wrong, "acceptance_rate")["source"] = ""
    put(autograder / "submission" / "my homework (1).ipynb", wrong)
    subprocess.run(["bash", "run_autograder"], cwd=autograder, check=True, env={**os.environ, "PYTHONPATH": ""})
    results = json.loads((autograder / "results" / "results.json").read_text(encoding="utf-8"))
    found = {test["name"]: test for test in results["tests"]}
    assert found.keys() == {exercise.name for exercise in WEEK4}
    lost = {name for name, test in found.items() if test["score"] < test["max_score"]}
    assert lost == {"residual_distribution", "acceptance_rate"}, results
    assert "of 7 tests failed" in found["residual_distribution"]["output"]
    assert found["verify_draft"]["status"] == "passed"


def test_the_archive_has_both_programs_at_its_top_and_they_are_runnable():
    with zipfile.ZipFile(io.BytesIO(_archive())) as archive:
        for name in ("setup.sh", "run_autograder"):
            entry = archive.getinfo(name)
            assert entry.external_attr >> 16 & 0o111 and archive.read(entry).startswith(b"#!/usr/bin/env bash\n")
            assert b"\r" not in archive.read(entry)


def _archive():
    from course.bundles.archive import archive_of

    return archive_of(autograder_files(4), runnable=("run_autograder", "setup.sh"))


def test_no_solution_notebook_or_right_answer_is_in_the_archive():
    tops = ("solutions/", "tests/right/", "tests/sentences/", "tests/lessons/", "grading/")
    assert not [path for path in autograder_files(4) if path.startswith(tops)]


def test_a_suspicious_answer_has_no_points_and_a_tag(tmp_path):
    put(tmp_path / "week04_speculative.ipynb", right())
    (test,) = [t for t in grade(4, tmp_path, Lenient("verify_draft"))["tests"] if t["name"] == "verify_draft"]
    assert (test["score"], test["status"], test["tags"]) == (0, "failed", ["suspicious"])


@pytest.mark.parametrize("name", ["a.ipynb", "work/week04_speculative/week04_speculative.ipynb", "x_12_34_b.ipynb"])
def test_a_submission_is_read_whatever_its_files_are_called(tmp_path, name):
    put(tmp_path / "submission" / name, right())
    tests = grade(4, tmp_path / "submission", Lenient())["tests"]
    assert sum(test["score"] for test in tests) == sum(exercise.points for exercise in WEEK4)


def test_an_empty_submission_is_told_so(tmp_path):
    (tmp_path / "submission").mkdir()
    results = grade(4, tmp_path / "submission", Lenient())
    assert "nothing of week 4 was handed in" in results["output"]
    assert not any(test["score"] for test in results["tests"])


def test_a_failure_of_the_autograder_is_in_the_results_and_no_traceback_is_lost(tmp_path):
    main(4, tmp_path)  # no folder submission/
    results = json.loads((tmp_path / "results" / "results.json").read_text(encoding="utf-8"))
    assert results["score"] == 0 and "not your fault" in results["output"]


def test_a_week_that_is_none_is_refused(tmp_path):
    with pytest.raises(CourseError, match="week is 12; there are weeks 1 to 10"):
        gradescope(12, tmp_path)
