"""The eighteen ordinary submissions of week 4 through the judge: each gets what it deserves, and its state says why."""

import csv

import pytest
from submissions import the_eighteen

from course.gradebook.grade import grade
from course.judge.judge import Judge
from course.judge.messages import Limits
from course.registry import registry

FULL = sum(exercise.points for exercise in registry() if exercise.week == 4)
WORTH = {"three wrong": 9, "loop": 5, "sys.exit": 5, "os._exit": 5}  # points of what is wrong in it


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """Return every row of the table, by student and exercise."""
    top = tmp_path_factory.mktemp("eighteen")
    the_eighteen(top / "submitted")
    with Judge(sandbox=False, limits=Limits(test_seconds=6, seconds=60)) as judge:
        report = grade(4, [top / "submitted"], top / "marks.csv", judge, folder=top / "grading", seed=17)
    assert report.unplaced == [] and report.failures == []
    with (top / "marks.csv").open(encoding="utf-8", newline="") as file:
        return {(row["student"], row["exercise"]): row for row in csv.DictReader(file)}


def test_each_gets_what_it_deserves(marked):
    points = {}
    for (student, _), row in marked.items():
        points[student] = points.get(student, 0) + float(row["points"] or 0)
    assert points.pop("untouched") == 0
    # A wrong answer keeps the share of its tests that it passes.
    assert 0 <= points.pop("three wrong") - (FULL - WORTH["three wrong"]) <= 2
    assert len(points) == 16
    assert points == {student: FULL - WORTH.get(student, 0) for student in points}


def test_the_table_tells_why_there_are_no_points(marked):
    state = {student: row["state"] for (student, exercise), row in marked.items() if exercise == "accept_or_resample"}
    assert state["loop"] == "time" and state["untouched"] == "unwritten" and state["sys.exit"] == "failed"
    assert state["os._exit"] in ("crashed", "suspicious")
    assert {state[student] for student in state if student not in ("loop", "untouched", "sys.exit", "os._exit")} == {
        "passed"
    }
