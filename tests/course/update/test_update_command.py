"""course update --pull as a command: the new version's own code puts the answers back."""

import os
import subprocess
import sys

import pytest
from two_versions import COPY, SUMS, answer, answer_file, cells, git
from updating import only

from course.errors import CourseError
from course.update.pull import pull


def test_the_command_pulls_and_puts_answers_back_with_the_new_version_s_own_code(course, tool):
    answer(course / COPY, double="    return x + x")
    answer_file(course / SUMS, half="return x * 0.5", median="return 0.0")
    environment = os.environ | {"PYTHONPATH": str(course)}
    command = [sys.executable, "-m", "course", "update", "--pull"]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True, encoding="utf-8", env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SUMS}: half put back" in done.stdout and "median is no exercise any more" in done.stdout
    assert "double" in cells(course / COPY) and cells(course / COPY)["double"].endswith("return x + x")
    assert git(course, "status", "--porcelain").split() == ["M", SUMS]


def test_where_the_new_version_cannot_go_on_the_answers_are_safe_and_the_way_back_is_said(course, tool):
    answer_file(course / SUMS, half="return x * 0.5")
    (tool / "update" / "update.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    with pytest.raises(CourseError, match=r"your answers are safe .*: course update --from work/backup/"):
        pull(root=course)
    saved = only(course / "work" / "backup", f"*/{SUMS}")
    assert "return x * 0.5" in saved.read_text(encoding="utf-8")
