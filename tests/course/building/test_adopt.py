"""course adopt: edits of a solution notebook go back to the lesson and the engine, and nowhere else."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from small_course import LESSON, change, everything, small_course

from course.building.adopt import adopt
from course.building.build import build, check_build
from course.errors import CourseError
from course.paths import read


@pytest.fixture
def course(tmp_path):
    root = small_course(tmp_path)
    build(root)
    return root


def edit(root, edits):
    path = root / "solutions" / LESSON / f"{LESSON}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    edits(notebook.cells)
    nbformat.write(notebook, path)
    return path


def cell(cells, start):
    return next(cell for cell in cells if cell.id == start or cell.source.startswith(start))


def test_adopt_takes_prose_code_questions_and_answers_back_and_leaves_a_clean_build(course):
    lesson = course / "solutions" / f"{LESSON}.py"
    before = lesson.read_text(encoding="utf-8")

    def edits(cells):
        cell(cells, "Some prose.").source = "Better prose."
        cell(cells, "proof").source = "### BEGIN SOLUTION\nBecause.\n### END SOLUTION"
        cell(cells, "residual_distribution").source = cell(cells, "residual_distribution").source.replace(
            "total", "whole"
        )
        cells.append(new_code_cell("%time x = 1"))

    path = edit(course, edits)
    adopt(path, course)
    expected = before.replace("Some prose.", "Better prose.").replace("min(p, q) + max(p - q, 0) = p.", "Because.")
    assert lesson.read_text(encoding="utf-8") == expected + "\n# %%\n# %time x = 1\n"
    assert "    return excess / whole\n" in read(course / "nanolm" / "speculative" / "acceptance.py")
    assert check_build(course) == []


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        (lambda cells: cells.remove(cell(cells, "residual_distribution-check")), "residual_distribution-check is gone"),
        (lambda cells: cells.insert(0, cells.pop(-2)), "in another order"),
        (lambda cells: cell(cells, "KVCache-text").update(source="other"), "made from the fields"),
        (
            lambda cells: cell(cells, "residual_distribution").update(
                source="def residual_distribution(p, q):\n    'doc'\n    return math.inf"
            ),
            "uses math: import it in nanolm/speculative/acceptance.py",
        ),
    ],
)
def test_an_edit_without_a_place_in_a_source_is_refused_and_nothing_is_written(course, edits, complaint):
    path = edit(course, edits)
    before = everything(course)
    with pytest.raises(CourseError, match=complaint):
        adopt(path, course)
    assert everything(course) == before


def test_adopt_refuses_when_the_source_has_changed_too(course):
    path = edit(course, lambda cells: cell(cells, "Some prose.").update(source="Better prose."))
    change(course / "solutions" / f"{LESSON}.py", "Some prose.", "Other prose.")
    with pytest.raises(CourseError, match="has changed since the last build, and so has the notebook"):
        adopt(path, course)


def test_adopt_refuses_what_is_no_solution_notebook(course):
    with pytest.raises(CourseError, match="is no solution notebook"):
        adopt(course / "notebooks" / LESSON / f"{LESSON}.ipynb", course)
