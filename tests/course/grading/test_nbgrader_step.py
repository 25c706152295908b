"""A class graded by nbgrader itself: what people do to their cells by accident, and what each then gets."""

import os
import shutil
from unittest.mock import patch

import nbformat
import pytest

from course.building.release import run_converter
from course.paths import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")
NAME = "week01_prefill_decode"
CHECK = "matmul_flops-check"  # 1 of the points of week 1


def cells_of(notebook, part):
    """The graded cells whose name ends so: "-check"."""
    return [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id", "").endswith(part)]


def untouched_with_tags(released, solved):
    for cell in cells_of(released, "-check"):
        cell.metadata["tags"] = ["lab"]
    return released


def a_check_cell_twice(released, solved):
    (check,) = cells_of(solved, CHECK)
    solved.cells.insert(solved.cells.index(check), check.copy())
    return solved


def an_answer_twice_and_the_last_one_right(released, solved):
    (answer,) = cells_of(solved, "matmul_flops")
    wrong = nbformat.from_dict(answer)
    wrong.source = wrong.source.replace("return", "return 1 +")
    solved.cells.insert(solved.cells.index(answer), wrong)
    return solved


def a_check_cell_deleted(released, solved):
    solved.cells = [cell for cell in solved.cells if cell not in cells_of(solved, CHECK)]
    return solved


def a_folder_called_torch(released, solved):
    return solved


STUDENTS = (
    untouched_with_tags,
    a_check_cell_twice,
    an_answer_twice_and_the_last_one_right,
    a_check_cell_deleted,
    a_folder_called_torch,
)


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    """{student: {check cell: (points, most, needs a person)}} of a class of week 1, all graded in one batch."""
    from nbgrader.converters import GenerateAssignment

    folder = tmp_path_factory.mktemp("class")
    with patch.dict(os.environ):  # nbgrader's configuration sets some
        shutil.copytree(ROOT / "solutions" / NAME, folder / "solutions" / NAME)
        run_converter(GenerateAssignment, folder, NAME)
        for student in STUDENTS:
            hand_in(student, folder)
        return {student: autograde(folder, student.__name__) for student in STUDENTS}


def hand_in(student, folder):
    there = folder / "grading" / "submitted" / student.__name__ / NAME
    released, solved = (
        nbformat.read(ROOT / tree / NAME / f"{NAME}.ipynb", as_version=4) for tree in ("notebooks", "solutions")
    )
    there.mkdir(parents=True)
    nbformat.write(student(released, solved), there / f"{NAME}.ipynb")
    if student is a_folder_called_torch:
        (there / "torch").mkdir()
        (there / "torch" / "__init__.py").write_text("raise ImportError('this is not torch')", encoding="utf-8")


def autograde(folder, student):
    from nbgrader.api import Gradebook
    from nbgrader.converters import Autograde

    run_converter(Autograde, folder, NAME, {"CourseDirectory": {"student_id": student}})
    with Gradebook(f"sqlite:///{(folder / 'grading' / 'gradebook.db').as_posix()}") as gradebook:
        grades = [grade for notebook in gradebook.find_submission(NAME, student).notebooks for grade in notebook.grades]
        return {grade.name: (grade.auto_score, grade.max_score, grade.needs_manual_grade) for grade in grades}


def lost(grades):
    """The check cells that did not earn all of their points, or wait for a person for ever."""
    return [
        name for name, (points, most, waits) in grades.items() if name.endswith("-check") and (waits or points < most)
    ]


def test_a_tag_on_a_check_cell_earns_nothing(marks):
    checks = {name: mark for name, mark in marks[untouched_with_tags].items() if name.endswith("-check")}
    assert checks and all(mark[0] == 0 for mark in checks.values()), checks


@pytest.mark.parametrize("student", STUDENTS[1:], ids=lambda student: student.__name__)
def test_an_accident_with_cells_costs_no_point(marks, student):
    assert marks[student] and lost(marks[student]) == []
