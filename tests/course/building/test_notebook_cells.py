"""What a built notebook has beside the author's cells: set-up, needs, folded code, hints, words, the last cell."""

import nbformat
import pytest
from small_course import LESSON, change, small_course

from course.building.build import build, check_build
from course.building.session import without_needs
from course.errors import CourseError

SOURCE, RELEASE = f"solutions/{LESSON}.py", f"notebooks/{LESSON}/{LESSON}.ipynb"


@pytest.fixture
def course(tmp_path):
    return small_course(tmp_path)


def sources(root, path=RELEASE):
    build(root)
    return [cell.source for cell in nbformat.read(root / path, as_version=4).cells]


def add(root, *cells):
    path = root / SOURCE
    path.write_text("\n\n".join([path.read_text(encoding="utf-8"), *cells]) + "\n", encoding="utf-8")


def test_the_first_code_cell_holds_every_import_of_the_answers_and_no_answer_cell_has_one(course):
    found = sources(course)
    set_up = next(text for text in found if text.startswith("# Set-up for the exercises"))
    assert "from course import NotYetWritten, check, needs" in set_up and "import torch" in set_up
    assert found.index(set_up) == 1  # right after the heading
    answers = [text for text in found if "raise NotYetWritten" in text]
    assert answers and not any("\nimport " in text or text.startswith(("import", "from")) for text in answers)


def test_a_lab_says_which_exercises_it_needs_those_that_an_answer_uses_too(course):
    # accept_or_resample calls residual_distribution
    add(course, "# %%\nprint(accept_or_resample)", "# %%\nprint(KVCache)")
    found = sources(course)
    assert 'needs("4.1", "4.2")\nprint(accept_or_resample)' in found
    assert 'needs("4.3")\nprint(KVCache)' in found


def test_a_lab_names_the_earlier_cells_it_uses_by_their_heading_and_not_the_set_up(course):
    change(course / SOURCE, "# %%\nimport torch", "# %%\n# Set-up for the labs\nimport json")
    add(course, "# %% [markdown]\n# ## Count them", "# %%\ncount = 3", "# %%\nprint(json.dumps(count))")
    assert 'needs(count="Count them")\nprint(json.dumps(count))' in sources(course)


def test_the_line_of_needs_can_be_taken_off_again():
    long = 'needs(\n    "4.1",\n    a="b",\n)\nx = f(y)'
    assert without_needs(long) == "x = f(y)" == without_needs('needs("4.1")\nx = f(y)')
    assert without_needs('%%time\nneeds("4.1")\nx') == "%%time\nx"
    assert without_needs("x = 1\nneeds(2)\n") == "x = 1\nneeds(2)\n"


def test_code_that_draws_is_folded_and_other_code_is_not(course):
    add(course, "# %%\nfigures.show(1, 'one')", "# %%\nprint(2)")
    build(course)
    cells = nbformat.read(course / RELEASE, as_version=4).cells
    folded = [cell.source for cell in cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
    assert folded == ["figures.show(1, 'one')"]
    assert [cell.source for cell in cells if "hide-input" in cell.metadata.get("tags", [])] == folded


def test_a_hint_has_its_steps_folded_apart_and_slashes_in_code_divide_nothing(course):
    change(course / SOURCE, "# hint: slices.", "# hint: Mind `a // b`. // First the past, then the new.")
    (text,) = [text for text in sources(course) if "Mind `a" in text]
    assert "<summary>Hint</summary>\n\nMind `a // b`.\n" in text
    assert "<summary>Steps</summary>\n\nFirst the past, then the new.\n" in text


def test_a_hint_of_three_parts_is_refused(course):
    change(course / SOURCE, "# hint: slices.", "# hint: one // two // three")
    with pytest.raises(CourseError, match="a hint has two parts"):
        build(course)


def test_the_last_cell_lists_what_is_unwritten(course):
    assert sources(course)[-1] == f'from course import still_to_write\n\nstill_to_write("{LESSON}")'


def test_words_of_earlier_weeks_stand_folded_behind_the_legend_and_all_in_a_glossary(course):
    (course / "solutions" / "words").mkdir()
    text = '[[word]]\nname = "prose"\nforms = ["prose"]\nmeans = "Text that is no verse."\n'
    (course / "solutions" / "words" / "week01.toml").write_text(text, encoding="utf-8")
    change(course / SOURCE, "# Some prose.", "# ### The legend\n#\n# Some prose.")
    found = sources(course)
    legend = next(i for i, cell in enumerate(found) if "### The legend" in cell)
    assert "- **prose** (week 1): Text that is no verse." in found[legend + 1]
    assert "| **prose** | Text that is no verse. | 1 |" in sources(course, "notebooks/glossary.ipynb")[0]


def test_a_week_in_two_parts_is_one_folder_of_two_notebooks_whose_exercises_are_counted_on(course):
    text = (course / SOURCE).read_text(encoding="utf-8")
    head, first, rest = text.partition("# %%\np = torch")
    (course / SOURCE).unlink()
    (course / "solutions" / "week04_1_rule.py").write_text(head, encoding="utf-8")
    second = "# %% [markdown]\n# # Week 4 · The rest\n\n# %%\nimport torch\n\n" + first + rest
    (course / "solutions" / "week04_2_rest.py").write_text(second, encoding="utf-8")
    build(course)
    one, two = (f"notebooks/week04_rule_rest/week04_{part}.ipynb" for part in ("1_rule", "2_rest"))
    assert any("Exercise 4.1 · residual_distribution" in text for text in sources(course, one))
    assert any("Exercise 4.2 · accept_or_resample" in text for text in sources(course, two))
    assert any("Exercise 4.4 · in words: proof" in text for text in sources(course, two))
    (table,) = [text for text in sources(course, "notebooks/start.ipynb") if "| week |" in text]
    assert "[A lesson for tests](week04_rule_rest/week04_1_rule.ipynb)" in table
    assert "[The rest](week04_rule_rest/week04_2_rest.ipynb)" in table
    assert check_build(course) == []
