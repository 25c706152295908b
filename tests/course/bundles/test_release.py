"""course release: what is in it, what is not, and that it works where nothing else is."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import PurePosixPath

import pytest

from course.building.stubs import stub_file
from course.bundles.archive import archive_of
from course.bundles.release import release, release_files
from course.errors import CourseError
from course.paths import ROOT, read
from course.registry import registry
from course.text.source import Module

ANSWER = """
def residual_distribution(target_probs, draft_probs):
    excess = (target_probs - draft_probs).clamp(min=0)
    if float(excess.sum()) == 0:
        raise ValueError("target_probs and draft_probs are the same")
    return excess / excess.sum()
"""
FOR_STUDENTS = {"start", "update", "reset", "check", "status", "collect", "doctor", "capstone"}
FOR_INSTRUCTORS = [
    ("build",), ("check-build",), ("book",), ("adopt", "README.md"), ("audit",),
    ("release", "5"), ("gradescope", "4"), ("grade", "4", "notebooks"),
]  # fmt: skip
COMMANDS = [*FOR_STUDENTS, *(name for name, *_ in FOR_INSTRUCTORS), "similar", "leaderboard"]
SESSION = f"""
import inspect, nanolm
from course import check
from nanolm.speculative import residual_distribution as engine
print("engine of", nanolm.__file__)
print("engine says", engine(*map(__import__("torch").tensor, ([0.4, 0.6], [0.6, 0.4]))).tolist())
print("source of a packed function:", inspect.getsource(engine).partition("(")[0])
{ANSWER}
print(check("4.1", vars()))
"""


def only_in_solutions(shortest):
    """Return lines of solution notebooks that released ones lack, and that the engine has once at most."""
    found = set()
    engine = Counter(line.strip() for path in (ROOT / "nanolm").rglob("*.py") for line in read(path).splitlines())
    for path in sorted((ROOT / "solutions").glob("*/*.ipynb")):
        solved, released = lines_of(path), lines_of(ROOT / "notebooks" / path.parent.name / path.name)
        found |= {line for line in solved - released if len(line) >= shortest}
    return {line for line in found if engine[line] <= 1}


def lines_of(path):
    cells = json.loads(read(path))["cells"]
    return {line.strip() for cell in cells for line in "".join(cell["source"]).splitlines()}


def test_no_long_line_that_only_solutions_have_is_in_any_text_of_a_release(week4):
    secret = only_in_solutions(shortest=40)
    assert len(secret) > 500
    for path, content in week4.items():
        if path.endswith((".py", ".md", ".json", ".toml", ".txt")):
            assert not secret & {line.strip() for line in content.decode("utf-8").splitlines()}, path
        if path.endswith(".ipynb"):
            cells = json.loads(content)["cells"]
            assert not secret & {x.strip() for cell in cells for x in "".join(cell["source"]).splitlines()}, path


@pytest.mark.parametrize("folder", ["solutions", "tests/right", "tests/planted", "tests/sentences", "tests/lessons"])
def test_what_holds_answers_is_left_out(week4, folder):
    assert not [path for path in week4 if path.startswith(f"{folder}/")]


def test_no_file_of_version_control_caches_or_grading_is_in_it(week4):
    tops = {path.split("/")[0] for path in week4}
    assert not tops & {".git", "grading", "work", "INSTRUCTORS.md", "nbgrader_config.py"}
    assert not [path for path in week4 if "__pycache__" in path or ".ipynb_checkpoints" in path]


def test_a_student_s_front_page_has_no_part_for_instructors(week4):
    page = week4["README.md"].decode("utf-8")
    assert "course status" in page and "instructor" not in page.lower()


@pytest.mark.parametrize("page", ["README.md", "book/students.md", "book/use.md"])
def test_every_link_of_a_release_s_pages_leads_to_a_file_in_it(week4, page):
    folder = PurePosixPath(page).parent
    for link in re.findall(r"\]\(([^):]+)\)", week4[page].decode("utf-8")):
        assert os.path.normpath(folder / link).replace(os.sep, "/") in week4, link


def test_the_front_page_types_nothing_that_a_release_cannot_do(week4):
    page = week4["README.md"].decode("utf-8")
    assert "make lab" in page and "make book" not in page and "clone" not in page


def test_the_engine_shows_no_body_of_an_exercise_and_still_has_its_specification(week4):
    text = week4["nanolm/speculative/acceptance.py"].decode("utf-8")
    assert "max(p - q, 0), scaled to sum 1" in text and "exercise 4.1: its code is packed" in text


def test_stubs_made_from_the_released_engine_are_those_made_from_the_whole_one(week4):
    for exercise in registry():
        module = Module.parse(exercise.module, week4[f"nanolm/{exercise.file}"].decode("utf-8"))
        assert stub_file(module, registry()) == week4[f"exercises/{exercise.file}"].decode("utf-8")


def test_earlier_weeks_are_answered_only_where_that_is_asked_for():
    path = "sampling/filters.py"  # of week 3
    given, closed = release_files(4, solved_through=3), release_files(4, solved_through=2)
    for room in ("nanolm", "exercises"):
        assert given[f"{room}/{path}"].decode("utf-8") == read(ROOT / "nanolm" / path)
        assert "raise Not" in closed[f"{room}/{path}"].decode("utf-8")


def test_the_week_itself_stays_closed_where_earlier_ones_are_open():
    files = release_files(4, solved_through=3)
    assert "raise NotYetWritten" in files["exercises/speculative/acceptance.py"].decode("utf-8")


def test_every_test_of_an_exercise_is_in_it(week4):
    assert {test for exercise in registry() for test in exercise.tests} <= week4.keys()


@pytest.mark.parametrize(
    ("week", "solved", "said"), [(11, 0, "week is 11; there are weeks 1 to 10"), (4, 4, "for week 4 it is 0 to 3")]
)
def test_a_week_that_cannot_be_is_refused(week, solved, said):
    with pytest.raises(CourseError, match=said):
        release_files(week, solved)


def test_an_older_release_is_never_overwritten(tmp_path):
    (tmp_path / "nanolm-week04.zip").write_bytes(b"")
    with pytest.raises(CourseError, match="is there already"):
        release(4, tmp_path)


def test_the_same_files_make_the_same_archive_with_its_programs_runnable(tmp_path):
    files = {"run": b"#!/bin/sh\n", "notes.txt": b"a"}
    assert archive_of(files, "top", ("run",)) == archive_of(dict(reversed(files.items())), "top", ("run",))
    (tmp_path / "a.zip").write_bytes(archive_of(files, "top", ("run",)))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.getinfo("top/run").external_attr >> 16 & 0o111


def test_a_release_works_where_nothing_else_is(week4, tmp_path):
    (tmp_path / "release.zip").write_bytes(archive_of(week4))
    with zipfile.ZipFile(tmp_path / "release.zip") as archive:
        archive.extractall(tmp_path / "nanolm-week04")
    here = tmp_path / "nanolm-week04"
    environment = {**os.environ, "PYTHONPATH": str(here), "PYTHONUTF8": "1"}

    def run(*line):
        done = subprocess.run(
            [sys.executable, *line], cwd=here, env=environment, capture_output=True, text=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "yours to answer" in run("-m", "course", "start")
    said = run("-c", SESSION)
    assert f"engine of {here / 'nanolm'}" in said and "engine says [0.0, 1.0]" in said
    assert "source of a packed function: def residual_distribution" in said
    assert "7 tests passed, 3 points" in said
    help_text = run("-m", "course", "--help")
    listed = {name for name in COMMANDS if re.search(rf"^\W*{name} ", help_text, re.MULTILINE)}
    assert listed == FOR_STUDENTS
    for name, *arguments in FOR_INSTRUCTORS:
        done = subprocess.run(
            [sys.executable, "-m", "course", name, *arguments],
            cwd=here, env=environment, capture_output=True, text=True, encoding="utf-8",
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode == 1 and said.startswith(f"error: course {name} needs what only the repository has")
    status = run("-m", "course", "status", "--week", "1")
    assert "not written" in status and "passed" not in status
