"""The command `course` from outside: what it prints and how it ends."""

import subprocess
import sys
from importlib import metadata

import pytest
from typer.testing import CliRunner

from course.building import build
from course.cli import app
from course.paths import ROOT


def course(*arguments):
    """Run `python -m course`, which is the command, and return (exit code, everything printed)."""
    command = [sys.executable, "-m", "course", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("status", "--impl", "nowhere"), "NANOLM_IMPL is 'nowhere', and there is no such package or folder"),
        (("status", "--week", "99"), "week is 99; there are exercises for weeks 1, 2"),
        (("status", "99"), "week is 99; there are exercises for weeks 1, 2"),
        (("status", "4", "--week", "5"), "WEEK is 4 and --week is 5; give one of them"),
        (("adopt", "README.md"), "README.md is no solution notebook"),
        (("build", "README.md"), "course build --force PATH"),
        (("start", "README.md"), "README.md is a file; name a folder for your work"),
        (("update", "notebooks"), "notebooks is a folder of the course itself; name another for your work"),
        (("update", "--from", "tests"), "tests is no folder of a course or a backup"),
        (("update", "--pull", "--from", "tests"), "--pull and --from cannot go together"),
        (("status", "--folder", "README.md"), "README.md is a file"),
        (("reset", "2.99"), "there is no exercise '2.99'; did you mean 2.9"),
        (("grade", "4"), "name what was handed in: course grade WEEK SUBMISSIONS"),
        (("grade", "44", "tests"), "week is 44; there are weeks 1 to 10"),
        (("grade", "4", "solutions", "--csv", "tests"), "tests cannot be written: name a file in a folder"),
        (("grade", "4", "nowhere", "--folder", "work"), "there is no nowhere to grade"),
        (("reset", "apply_rop"), "there is no exercise 'apply_rop'; did you mean apply_rope"),
    ],
)
def test_a_request_that_cannot_be_met_is_one_line_and_exit_code_1(arguments, complaint):
    code, said = course(*arguments)
    assert code == 1
    assert said.startswith("error: ") and complaint in said and "Traceback" not in said


def test_collect_names_what_it_took_and_the_command_to_test_it(tmp_path):
    notebook = "solutions/week04_speculative/week04_speculative.ipynb"
    code, said = course("collect", notebook, "--into", tmp_path)
    assert code == 0
    assert "residual_distribution taken" in said
    assert f"NANOLM_IMPL={tmp_path.as_posix()} python -m pytest" in said


@pytest.mark.parametrize("arguments", [("-h",), ("--help",), ("status", "-h")])
def test_help_is_asked_for_in_either_way(arguments):
    code, said = course(*arguments)
    assert code == 0 and "Usage: python -m course" in said and "--help" in said


def test_the_version_is_that_of_the_package():
    assert course("--version") == (0, f"course {metadata.version('nanolm-course')}\n")


def test_answered_files_are_named_by_check_build_and_no_reason_to_fail(monkeypatch):
    monkeypatch.setattr(build, "check_build", lambda released: ["exercises/x.py differs"] if released else [])
    monkeypatch.setattr(build, "answered", lambda: ["exercises/x.py"])
    result = CliRunner().invoke(app, ["check-build"])
    assert result.exit_code == 0 and "answered here, so not compared: exercises/x.py" in result.stdout
    result = CliRunner().invoke(app, ["check-build", "--released"])
    assert result.exit_code == 1 and result.stdout == "exercises/x.py differs\n"
