"""From a student's files to answers, each exercise in its state, and what was odd said."""

import json

import pytest
from submissions import (
    WEEK4,
    bytes_of,
    cell_of,
    doubled,
    in_a_new_cell,
    older,
    put,
    right,
    stripped,
    the_eighteen,
    untouched,
    with_body,
    without,
)  # fmt: skip

from course.intake import notebooks, reading
from course.intake.reading import read_each
from course.intake.submission import sort_by_student
from course.paths import ROOT, read
from course.registry import registry
from course.text.ipython import python_of

WEEK6 = ("week06_batching_paging/week06_1_batching.ipynb", "week06_batching_paging/week06_2_paging.ipynb")


def read_week(path, week=4):
    handed, unplaced = sort_by_student([path])
    found = list(read_each(week, handed, unplaced))
    return found, [str(each) for each in unplaced]


def one(tmp_path, notebook, name=WEEK4, week=4, **options):
    """Return the submission of one student with one notebook."""
    put(tmp_path / "class" / "ana" / name, notebook, **options)
    (found,), unplaced = read_week(tmp_path / "class", week)
    assert unplaced == []
    return found


def states(submission):
    return set(submission.states.values())


def test_the_eighteen_ordinary_submissions_are_all_placed_and_read(tmp_path):
    the_eighteen(tmp_path)
    found, unplaced = read_week(tmp_path)
    assert len(found) == 18 and unplaced == []
    assert {each.student: states(each) for each in found if states(each) != {"answered"}} == {
        "untouched": {"unwritten"}
    }
    whole = {each.student for each in found if each.answers == found[-1].answers}
    assert "warning" in whole and len(whole) == 1


def test_the_same_answers_come_out_of_every_form_of_one_notebook(tmp_path):
    plain = one(tmp_path / "plain", right()).answers
    forms = [
        *(older(right(), minor) for minor in range(5)), stripped(right()), doubled(right(), "best_gamma"),
        in_a_new_cell(right(), "best_gamma"), without(right(), "best_gamma-check", "best_gamma-text"),
    ]  # fmt: skip
    mixed = right()
    mixed["cells"] = mixed["cells"][:4] + mixed["cells"][:3:-1]
    for number, notebook in enumerate([*forms, mixed]):
        assert one(tmp_path / str(number), notebook).answers == plain, number
    for name in ("WEEK04_speculative.IPYNB", "my work (3).ipynb", "week04_speculative.ipynb.json"):
        assert one(tmp_path / name, right(), name).answers == plain, name
    assert one(tmp_path / "bom", right(), bom=True, newline="\r\n").answers == plain


def test_a_notebook_in_utf_16_is_read(tmp_path):
    path = tmp_path / "class" / "ana" / "week04.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(bytes_of(right()).decode(), encoding="utf-16")
    assert states(read_week(tmp_path / "class")[0][0]) == {"answered"}


def test_a_notebook_that_windows_has_saved_in_its_own_letters_is_read(tmp_path):
    notebook = right()
    cell_of(notebook, "acceptance_rate")["source"] += "# größer"
    path = tmp_path / "class" / "ana" / WEEK4
    put(path, notebook)
    path.write_bytes(path.read_bytes().replace("größer".encode(), "größer".encode("cp1252")))
    (found,), _ = read_week(tmp_path / "class")
    assert set(found.states.values()) == {"answered"}


def test_a_notebook_saved_as_python_has_the_same_answers(tmp_path):
    path = tmp_path / "class" / "ana" / "week04_speculative.py"
    path.parent.mkdir(parents=True)
    cells = [cell["source"] for cell in right()["cells"] if cell["cell_type"] == "code"]
    plain = [f"# In[{i}]:\n\n\n{python_of(text)}\n" for i, text in enumerate(cells)]
    path.write_text("#!/usr/bin/env python\n# coding: utf-8\n\n" + "\n".join(plain), encoding="utf-8")
    (found,), _ = read_week(tmp_path / "class")
    assert set(found.states.values()) == {"answered"} and not any("not read" in note for note in found.notes)


def test_a_deleted_answer_is_missing_and_an_empty_one_unwritten(tmp_path):
    notebook = without(right(), "best_gamma")
    cell_of(notebook, "acceptance_rate")["source"] = cell_of(untouched(), "acceptance_rate")["source"]
    cell_of(notebook, "verify_draft")["source"] = "def verify_draft(:\n    return"
    found = one(tmp_path, notebook).states
    assert (found["4.6"], found["4.3"], found["4.7"], found["4.1"]) == (
        "missing",
        "unwritten",
        "unreadable",
        "answered",
    )


def test_an_answer_that_is_not_python_is_named_and_harms_no_other(tmp_path):
    notebook = with_body(right(), "verify_draft", "return drafted +")
    found = one(tmp_path, notebook)
    assert "invalid syntax" in found.problems["4.7"]
    assert [number for number, state in found.states.items() if state != "answered"] == ["4.7"]


def test_of_two_answers_the_last_one_counts_and_that_is_said(tmp_path):
    notebook = doubled(right(), "acceptance_rate")
    cell_of(notebook, "acceptance_rate")["source"] = "def acceptance_rate(p, q):\n    return p"
    found = one(tmp_path, notebook)
    assert "return p\n" not in found.answers["4.3"]["speculative/acceptance.py"]
    assert "4.3 acceptance_rate: acceptance_rate is written 2 times; the last one counts" in found.notes


def test_each_exercise_stands_in_files_with_no_other_answer(tmp_path):
    found = one(tmp_path, right())
    assert found.answers["4.1"]["speculative/acceptance.py"].count("raise NotYetWritten") == 3


@pytest.mark.parametrize("joined", [False, True])
def test_a_week_of_two_notebooks_is_one_submission(tmp_path, joined):
    first, second = (right(lesson) for lesson in WEEK6)
    if joined:
        first["cells"] += second["cells"]
    else:
        put(tmp_path / "class" / "ana" / WEEK6[1], second)
    found = one(tmp_path, first, WEEK6[0], week=6)
    assert states(found) == {"answered"} and len(found.states) == len([e for e in registry() if e.week == 6])


def test_half_of_a_week_of_two_notebooks_misses_the_other_half(tmp_path):
    found = one(tmp_path, right(WEEK6[0]), WEEK6[0], week=6)
    by_notebook = {(e.notebook, found.states[e.number]) for e in registry() if e.week == 6}
    assert by_notebook == {(f"notebooks/{WEEK6[0]}", "answered"), (f"notebooks/{WEEK6[1]}", "missing")}


def test_of_two_copies_the_one_with_more_answers_counts(tmp_path):
    put(tmp_path / "class" / "ana" / "week04_speculative (1).ipynb", untouched())
    found = one(tmp_path, right(), "week04_speculative.ipynb")
    assert states(found) == {"answered"}
    assert any("counts, with" in note and "(1).ipynb" in note for note in found.notes)


def test_a_notebook_of_another_week_is_named_and_the_week_is_missing(tmp_path):
    put(tmp_path / "class" / "ana" / "homework 4.ipynb", right(WEEK6[0]))
    (found,), unplaced = read_week(tmp_path / "class")
    assert states(found) == {"missing"} and "homework 4.ipynb is of week 6, and is not read for this one" in found.notes
    assert any("nothing of week 4 was found" in line for line in unplaced)


def test_a_whole_work_folder_is_read_for_its_week_alone(tmp_path):
    for name in (WEEK4, *WEEK6):
        put(tmp_path / "class" / "ana" / "work" / name, right(name))
    put(tmp_path / "class" / "ana" / "work" / "start.ipynb", {"cells": []})
    (found,), unplaced = read_week(tmp_path / "class")
    assert states(found) == {"answered"} and unplaced == [] and found.notes == ()


def test_an_exercises_folder_is_a_submission(tmp_path):
    for exercise in [exercise for exercise in registry() if exercise.week == 4]:
        path = tmp_path / "class" / "ana" / "exercises" / exercise.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\ufeff" + read(ROOT / "nanolm" / exercise.file), encoding="utf-8", newline="\r\n")
    (found,), unplaced = read_week(tmp_path / "class")
    assert states(found) == {"answered"} and unplaced == []


def test_what_the_notebook_lacks_comes_from_exercises(tmp_path):
    path = tmp_path / "class" / "ana" / "speculative" / "speedup.py"
    path.parent.mkdir(parents=True)
    path.write_text(read(ROOT / "nanolm" / "speculative" / "speedup.py"), encoding="utf-8")
    found = one(tmp_path, without(right(), "best_gamma"))
    assert states(found) == {"answered"} and "4.6" in found.answers


def test_words_are_found_with_and_without_ids_and_the_last_copy_counts(tmp_path):
    notebook = untouched()
    slug = "proof-of-exactness"
    cell_of(notebook, slug)["source"] = "first"
    doubled(notebook, slug)
    notebook["cells"][notebook["cells"].index(cell_of(notebook, slug)) + 1]["source"] = "second"
    assert "second" in one(tmp_path / "a", notebook).written.values()
    notebook = untouched()
    cell_of(notebook, slug)["source"] = "only words"
    assert "only words" in one(tmp_path / "b", stripped(notebook)).written.values()
    assert set(one(tmp_path / "c", untouched()).written.values()) == {""}


def test_two_folders_with_the_same_notebook_under_one_name_are_not_guessed_at(tmp_path):
    for student in ("ana", "ben"):
        put(tmp_path / "class" / "section 1" / student / WEEK4, right())
    found, unplaced = read_week(tmp_path / "class")
    assert found == [] and len(unplaced) == 1 and "ana and ben; name those folders" in unplaced[0]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not a notebook"),
        (b"<html>Log in</html>", "is not a notebook"),
        (b"[" * 200_000, "is not a notebook"),
        (b'{"cells": 3}', "has no list of cells"),
        (b'{"cells": []}', "has nothing of this course in it"),
        (b"\xff\xfe\x00", "is not a notebook"),
        (b'{"worksheets": [{"cells": []}], "nbformat": 3}', "nbformat 3 or older: open it in JupyterLab, save it"),
    ],
)
def test_a_file_that_is_no_notebook_is_named_and_stops_nobody(tmp_path, data, said):
    bad = tmp_path / "class" / "bad" / "homework.ipynb"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(data)
    put(tmp_path / "class" / "good" / WEEK4, right())
    found, unplaced = read_week(tmp_path / "class")
    state = "missing" if said.endswith("in it") else "unreadable"
    assert {each.student: states(each) for each in found} == {"bad": {state}, "good": {"answered"}}
    assert any(said in line and "homework.ipynb" in line for line in unplaced)


@pytest.mark.parametrize(
    "source",
    ["x = '\\ud800'", "\x00", "(" * 5000, "-" * 50_000 + "1", "x = " + ".a" * 20_000, "def f():\n" * 200, "\ud83d"],
)
def test_a_strange_cell_costs_no_other_answer(tmp_path, source):
    notebook = right()
    notebook["cells"].insert(3, {"cell_type": "code", "metadata": {}, "source": source, "outputs": []})
    path = tmp_path / "class" / "ana" / WEEK4
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    (found,), _ = read_week(tmp_path / "class")
    assert states(found) == {"answered"}


def test_ten_thousand_cells_are_read(tmp_path):
    notebook = right()
    more = [{"cell_type": "code", "metadata": {}, "source": f"y{n} = {n}", "outputs": []} for n in range(10_000)]
    notebook["cells"] += more
    assert states(one(tmp_path, notebook)) == {"answered"}


def test_outputs_of_any_size_are_left_out(tmp_path):
    notebook = right()
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["line\n"] * 100_000}]
    assert states(one(tmp_path, notebook)) == {"answered"}


def test_metadata_that_is_anything_at_all_is_passed_over(tmp_path):
    notebook = right()
    for cell, odd in zip(
        notebook["cells"], [None, 3, [], "x", {"nbgrader": 5}, {"tags": 3}, {"nbgrader": {}}], strict=False
    ):
        cell["metadata"] = odd
    assert states(one(tmp_path, notebook)) == {"answered"}


def test_a_file_that_is_small_on_disk_and_huge_in_memory_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "MOST_VALUES", 1000)
    path = tmp_path / "class" / "ana" / WEEK4
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"cells": [' + b"[]," * 999 + b"[]]}")
    (found,), unplaced = read_week(tmp_path / "class")
    assert states(found) == {"unreadable"} and any("more than 1,000 values" in line for line in unplaced)


def test_an_empty_folder_is_a_student_who_handed_nothing_in(tmp_path):
    (tmp_path / "class" / "ben" / "week04_speculative").mkdir(parents=True)
    put(tmp_path / "class" / "ana" / WEEK4, right())
    found, unplaced = read_week(tmp_path / "class")
    assert {each.student: states(each) for each in found} == {"ana": {"answered"}, "ben": {"missing"}}
    assert len(unplaced) == 1 and "of ben: nothing of week 4 was found" in unplaced[0]


def test_what_a_damaged_notebook_may_have_held_is_unreadable_and_not_missing(tmp_path):
    path = tmp_path / "class" / "ana" / WEEK6[1]
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes_of(right(WEEK6[1]))[:5000])
    found = put(tmp_path / "class" / "ana" / WEEK6[0], right(WEEK6[0])) and read_week(tmp_path / "class", 6)[0][0]
    assert states(found) == {"answered", "unreadable"}
    put(path, {"cells": []})  # a notebook, and of something else
    assert states(read_week(tmp_path / "class", 6)[0][0]) == {"answered", "missing"}


def test_a_file_of_the_student_s_own_in_exercises_comes_along(tmp_path):
    folder = tmp_path / "class" / "ana" / "exercises" / "speculative"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text("def total(x):\n    return x.sum(-1)\n", encoding="utf-8")
    text = "from .mine import total\n\ndef acceptance_rate(p, q):\n    return total(p.minimum(q))\n"
    (folder / "acceptance.py").write_text(text, encoding="utf-8")
    (found,), _ = read_week(tmp_path / "class")
    assert sorted(found.answers["4.3"]) == ["speculative/acceptance.py", "speculative/mine.py"]
    assert found.states["4.3"] == "answered" and found.states["4.1"] == "missing"


def test_a_fault_in_our_own_reading_stops_nobody_and_the_student_stays_in_the_list(tmp_path, monkeypatch):
    for student in ("ana", "ben"):
        put(tmp_path / "class" / student / WEEK4, right())
    known = reading.that_count

    def fails_for_ana(found, week):
        if "ana" in found[0].placed.file.where:
            raise RuntimeError("a fault")
        return known(found, week)

    monkeypatch.setattr(reading, "that_count", fails_for_ana)
    found, unplaced = read_week(tmp_path / "class")
    assert {each.student: states(each) for each in found} == {"ana": {"unreadable"}, "ben": {"answered"}}
    assert any("RuntimeError: a fault" in line for line in unplaced)
