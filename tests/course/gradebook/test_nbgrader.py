"""What nbgrader makes of the gradebook: formgrader's lists, feedback, export."""

import html
import json
import re

import pytest
from classroom import QuickJudge
from nbgrader.apps import NbGraderAPI
from nbgrader.plugins import CsvExportPlugin
from traitlets.config import Config

from course.gradebook.grade import grade
from course.paths import ROOT, read

WEEK = "week04_speculative"


@pytest.fixture
def nbgrader(classroom, grading):
    """nbgrader, set up as nbgrader_config.py does, over a class that has been graded."""
    grade(4, [classroom], None, QuickJudge({"'wrong'": ("failed", 0)}), folder=grading, seed=1)
    config = Config()
    config.CourseDirectory.root = str(grading.parent)
    config.CourseDirectory.db_url = f"sqlite:///{(grading / 'gradebook.db').as_posix()}"
    for step in ("autograded", "feedback", "submitted"):
        config.CourseDirectory[f"{step}_directory"] = f"grading/{step}"
    return NbGraderAPI(config=config)


def test_formgrader_lists_every_student_as_graded_and_what_waits_for_a_person(nbgrader):
    found = {each["student"]: each for each in nbgrader.get_submissions(WEEK)}
    assert len(found) == 4 and all(each["autograded"] for each in found.values())
    assert found["right"]["needs_manual_grade"] and not found["untouched"]["needs_manual_grade"]
    assert found["right"]["code_score"] == found["right"]["max_code_score"] > 0 == found["untouched"]["code_score"]


def test_formgrader_finds_the_notebooks_that_it_shows(nbgrader):
    assert [notebook["name"] for notebook in nbgrader.get_notebooks(WEEK)] == [WEEK]
    shown = nbgrader.get_notebook_submissions(WEEK, WEEK)
    assert {each["student"] for each in shown} == {each["student"] for each in nbgrader.get_submissions(WEEK)}


def test_feedback_is_made_and_holds_check_s_words(nbgrader, grading):
    (name,) = [each["student"] for each in nbgrader.get_submissions(WEEK) if "cmd" in each["student"]]
    made = nbgrader.generate_feedback(WEEK, student_id=name)
    assert made["success"], made
    page = (grading / "feedback" / name / WEEK / f"{WEEK}.html").read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    assert "best_gamma: 'wrong' was found" in text and "return 'wrong'" in text


def test_export_has_every_student(nbgrader, grading):
    plugin = CsvExportPlugin(to=str(grading / "export.csv"))
    with nbgrader.gradebook as book:
        plugin.export(book)
    text = (grading / "export.csv").read_text(encoding="utf-8")
    assert all(f",{name}," in text for name in ("right", "untouched"))


def test_the_gradebook_has_the_lesson_s_whole_kernel_which_plain_autograde_writes_into_each_notebook(nbgrader):
    with nbgrader.gradebook as book:
        kernel = json.loads(book.find_notebook(WEEK, WEEK).kernelspec)
    assert kernel == json.loads(read(ROOT / "notebooks" / WEEK / f"{WEEK}.ipynb"))["metadata"]["kernelspec"]
    assert {"name", "display_name"} <= kernel.keys()
