"""course update, the copies of the notebooks: the corrected lesson, and in it whatever the student wrote."""

import json
import shutil

from small_course import change
from two_versions import (
    BUILT,
    COPY,
    LESSON,
    answer,
    cells,
    edit_notebook,
    git,
    insert,
)
from updating import only, pulled, text, updated


def test_answers_stand_in_the_corrected_lesson(course):
    answer(course / COPY, double="    return x + x", proof="Because.")
    said = pulled(course)
    assert f"{LESSON}: the new version, with 2 answers of yours" in said
    new = cells(course / COPY)
    assert new["double"].endswith("return x + x") and new["proof"] == "Because."
    assert "Some prose." in new.values() and "Prove that it is so." in new["proof-text"]


def test_an_answer_gets_the_corrected_docstring_above_it(course):
    answer(course / COPY, half="    # by two\n    return x / 2")
    pulled(course)
    assert cells(course / COPY)["half"].endswith('"""Return half of a number."""\n    # by two\n    return x / 2')


def test_methods_get_the_corrected_class_around_them_and_bring_their_helpers(course):
    def solve(found):
        tally = next(cell for cell in found if cell["id"] == "Tally")
        body = "        # Write your code here, in the place of the next line.\n        raise NotYetWritten"
        first, middle, last = "".join(tally["source"]).split(body)
        new = "        self.grow(x)", "        return self.value"
        tally["source"] = f"{first}{new[0]}{middle}{new[1]}{last}\n\n    def grow(self, x):\n        self.value += x"

    edit_notebook(course / COPY, solve)
    pulled(course)
    source = cells(course / COPY)["Tally"]
    assert '"""Add a number."""\n        self.grow(x)' in source
    assert source.endswith("    def grow(self, x):\n        self.value += x")


def test_what_a_student_added_to_an_answer_cell_stays_in_it(course):
    answer(course / COPY, half="    return x * SHARE")
    change(course / COPY, "def half", "import sys\\n\\nSHARE = 0.5  # of one\\n\\n\\ndef half")
    change(course / COPY, "return x * SHARE", "return x * SHARE\\n\\n\\nprint(half(3), sys.version)")
    pulled(course)
    source = cells(course / COPY)["half"]
    assert source.startswith("import sys\nSHARE = 0.5  # of one\n\n\ndef half") and "half of a number" in source
    assert source.endswith("print(half(3), sys.version)")


def test_an_answer_whose_exercise_is_gone_or_renamed_is_kept_as_a_file_and_named(course):
    answer(course / COPY, largest="    return sorted(values)[-1]", median="    return 0.0")
    said = pulled(course)
    for name, body in (("largest", "return sorted(values)[-1]"), ("median", "return 0.0")):
        assert f"/{LESSON}/{name}.py: {name} of {LESSON}, because the exercise is gone or has another name" in said
        assert body in only(course / "work" / "kept", f"*/{LESSON}/{name}.py").read_text(encoding="utf-8")
    assert "NotYetWritten" in cells(course / COPY)["maximum"]


def test_cells_of_one_s_own_stay_where_they_stood(course):
    insert(course / COPY, "half", "def scale(x):\n    return x")
    insert(course / COPY, "mean-text", "My notes.", kind="markdown")  # behind an exercise that is gone
    pulled(course)
    sources = list(cells(course / COPY).values())
    keys = list(cells(course / COPY))
    assert keys[sources.index("def scale(x):\n    return x") + 1] == "half"
    assert keys[sources.index("My notes.") + 1] == "mean-text"


def test_a_changed_cell_of_the_lesson_stays_changed_where_the_lesson_s_is_the_same(course):
    change(course / COPY, "number = 3", "number = 30")
    pulled(course)
    assert "number = 30" in cells(course / COPY).values() and "number = 3" not in cells(course / COPY).values()


def test_a_changed_cell_that_the_lesson_has_changed_as_well_is_kept_as_a_file_and_named(course):
    change(course / COPY, "other = 4", "other = 40")
    said = pulled(course)
    assert "other = 5" in cells(course / COPY).values()
    kept = only(course / "work" / "kept", f"*/{LESSON}/cell-*.py")
    assert kept.read_text(encoding="utf-8") == "other = 40\n" and kept.name in said


def test_an_untouched_copy_becomes_the_new_version_byte_for_byte(course):
    pulled(course)
    assert text(course, COPY) == text(course, BUILT)


def test_a_copy_that_was_only_opened_and_run_becomes_the_new_version(course):
    def run(found):
        for cell in found:
            cell["metadata"]["trusted"] = True
            if cell["cell_type"] == "code":
                cell |= {"execution_count": 1, "outputs": []}

    edit_notebook(course / COPY, run)
    assert f"{LESSON}: the new version; nothing of yours was in it" in pulled(course)


def test_outputs_and_the_student_s_kernel_stay_where_the_cell_is_the_same(course):
    def run(found):
        cell = next(cell for cell in found if "".join(cell["source"]) == "number = 3")
        cell |= {"execution_count": 7, "outputs": [{"output_type": "stream", "name": "stdout", "text": ["hello"]}]}

    edit_notebook(course / COPY, run)
    answer(course / COPY, double="    return x + x")
    change(course / COPY, '"name": "python3"', '"name": "mine"')
    pulled(course)
    notebook = json.loads(text(course, COPY))
    assert any(cell.get("execution_count") == 7 for cell in notebook["cells"])
    assert notebook["metadata"]["kernelspec"]["name"] == "mine"


def test_cells_that_lost_metadata_and_ids_are_known_by_what_they_define(course):
    def lose(found):
        for cell in found:
            cell["metadata"] = {}
            del cell["id"]

    answer(course / COPY, half="    return x * 0.5", proof="Because.", largest="    return values[0]")
    edit_notebook(course / COPY, lose)
    said = pulled(course)
    new = cells(course / COPY)
    assert new["half"].endswith("return x * 0.5") and new["proof"] == "Because."
    assert "largest of" in said and len(new) == len(cells(course / BUILT))


def test_of_two_cells_with_one_name_the_answered_one_is_the_answer_and_the_other_stays(course):
    def copy(found):
        place = [cell["id"] for cell in found].index("double")
        source = "".join(found[place]["source"]).replace("raise NotYetWritten", "return x + x")
        found.insert(place + 1, found[place] | {"id": "copied", "source": source})

    edit_notebook(course / COPY, copy)
    pulled(course)
    new = json.loads(text(course, COPY))["cells"]
    graded = [cell for cell in new if cell["metadata"].get("nbgrader", {}).get("grade_id") == "double"]
    assert len(graded) == 1 and "return x + x" in "".join(graded[0]["source"])
    assert len({cell["id"] for cell in new}) == len(new)


def test_an_answer_that_is_not_python_is_put_in_as_it_was_and_named(course):
    answer(course / COPY, half="    return x *")
    said = pulled(course)
    assert f"look: {LESSON}, half: put in as it was, because the cell, line 3: invalid syntax" in said
    assert cells(course / COPY)["half"].endswith("return x *")


def test_answers_written_into_the_built_notebooks_find_their_way_into_the_copies(course):
    answer(course / BUILT, double="    return x + x")
    pulled(course)
    assert cells(course / COPY)["double"].endswith("return x + x")
    assert "    return x + x" not in text(course, BUILT)
    assert git(course, "status", "--porcelain") == ""


def test_without_a_note_of_its_version_a_copy_still_keeps_its_answers(course):
    answer(course / COPY, half="    return x * 0.5", proof="Because.")
    change(course / COPY, "number = 3", "number = 30")
    (course / "work" / ".course.json").unlink()
    pulled(course)
    new = cells(course / COPY)
    assert new["half"].endswith('"""Return half of a number."""\n    return x * 0.5') and new["proof"] == "Because."
    assert "number = 30" in new.values() and "Some prose." in new.values() and "Some prosse." not in new.values()


def test_a_missing_copy_is_made_anew(course):
    shutil.rmtree(course / "work")
    assert f"copied to work/: start, {LESSON}" in pulled(course)
    assert text(course, COPY) == text(course, BUILT)


def test_an_answer_follows_its_exercise_into_another_notebook(course):
    answer(course / COPY, double="    return x + x", median="    return 0.0")
    git(course, "merge", "--quiet", "second")
    lesson = "week02_more_sums"
    shutil.move(course / "notebooks" / LESSON, course / "notebooks" / lesson)
    shutil.move(course / BUILT.replace(LESSON, lesson, 1), course / f"notebooks/{lesson}/{lesson}.ipynb")
    before = (course / COPY).read_bytes()
    said = updated(course)
    assert f"double moved with its exercise: {LESSON} → {lesson}" in said
    assert cells(course / f"work/{lesson}/{lesson}.ipynb")["double"].endswith("return x + x")
    assert f"{LESSON}: the course has no such notebook any more; your copy stays where it is" in said
    assert (course / COPY).read_bytes() == before
