"""course build: what it writes, that it writes the same again, and what it refuses to overwrite."""

import shutil

import nbformat
import pytest
from small_course import LESSON, change, everything, small_course

from course.building.build import answered, build, check_build
from course.errors import CourseError

ANSWERS, CACHE = "speculative/acceptance.py", "cache/contiguous.py"  # the files that the lesson asks something of
SOLUTION, RELEASE = (f"{folder}/{LESSON}/{LESSON}.ipynb" for folder in ("solutions", "notebooks"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A built course; tests that change it copy it first."""
    root = small_course(tmp_path_factory.mktemp("built"))
    build(root)
    return root


@pytest.fixture
def course(built, tmp_path):
    return shutil.copytree(built, tmp_path / "course")


def cells(root, path):
    return {cell.id: cell for cell in nbformat.read(root / path, as_version=4).cells}


def test_build_writes_both_notebooks_the_stubs_and_the_registry(built):
    made = {SOLUTION, RELEASE, "notebooks/start.ipynb", "course/registry.json", "course/built.json"}
    made |= {f"exercises/{name}" for name in (ANSWERS, CACHE, "speculative/__init__.py", "cache/__init__.py")}
    assert made <= set(everything(built))


def test_a_second_build_changes_no_byte(course):
    before = everything(course)
    assert build(course).written == []
    assert everything(course) == before


def test_builds_in_two_folders_are_equal_byte_for_byte(built, tmp_path):
    other = small_course(tmp_path)
    build(other)
    assert everything(other) == everything(built)


def test_check_build_is_clean_after_a_build_and_names_each_file_that_differs(course):
    assert check_build(course) == []
    change(course / "nanolm" / ANSWERS, "return excess / total", "return excess / excess.sum()")
    (report,) = check_build(course)
    assert report.startswith(SOLUTION)
    assert '-    "    return excess / total' in report and '+    "    return excess / excess.sum()' in report


def test_solution_notebook_holds_the_engine_s_source_between_markers(built):
    answer = cells(built, SOLUTION)["residual_distribution"].source
    assert "    ### BEGIN SOLUTION\n    excess = " in answer
    assert answer.endswith("return excess / total\n    ### END SOLUTION")


def test_an_answer_cell_begins_with_its_definition_and_its_imports_are_set_up(built):
    answers = cells(built, SOLUTION)
    assert answers["accept_or_resample"].source.startswith("def accept")
    set_up = next(cell.source for cell in answers.values() if cell.source.startswith("# Set-up"))
    assert "from nanolm.sampling.rng import Rng" in set_up and "from jaxtyping import Bool, Float" in set_up


def test_code_that_nobody_answers_is_tagged_as_a_lab_except_what_sets_up_the_answers(built):
    code = [cell for cell in nbformat.read(built / RELEASE, as_version=4).cells if cell.cell_type == "code"]
    first, *others = [cell for cell in code if "nbgrader" not in cell.metadata]
    assert first.source.startswith("# Set-up for the exercises") and "tags" not in first.metadata and others
    assert all(cell.metadata["tags"] == ["lab"] for cell in others)
    assert not any("tags" in cell.metadata for cell in code if "nbgrader" in cell.metadata)


def test_methods_are_asked_inside_their_whole_class(built):
    solution, release = cells(built, SOLUTION)["KVCache"].source, cells(built, RELEASE)["KVCache"].source
    assert solution.count("### BEGIN SOLUTION") == 2
    assert release.count("raise NotYetWritten") == 2
    assert "def truncate" in release and "self.length = length" in release, "methods that are not asked stay written"


def test_released_notebook_holds_no_answer(built):
    text = (built / RELEASE).read_text(encoding="utf-8")
    for answer in ("SOLUTION", "excess / total", "min(p, q) + max"):
        assert answer not in text
    assert "YOUR ANSWER HERE" in text


def test_a_written_question_stays_readable_beside_its_answer(built):
    release = cells(built, RELEASE)
    assert "Show that the output is distributed as p." in release["proof-text"].source
    assert release["proof"].metadata.nbgrader.points == 6 and release["proof"].metadata.nbgrader.grade


def test_notebooks_carry_no_outputs_and_no_jupytext_metadata(built):
    for path in (SOLUTION, RELEASE):
        notebook = nbformat.read(built / path, as_version=4)
        assert "jupytext" not in notebook.metadata
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


def test_exercises_are_numbered_and_their_text_names_the_effort(built):
    text = cells(built, RELEASE)["KVCache-text"].source
    assert text.startswith("### Exercise 4.3 · KVCache: update, advance\n\n6 points · 20 minutes · difficulty 3 of 5")
    assert "<details><summary>Hint</summary>" in text


def test_a_stub_says_in_one_line_what_it_is_where_and_how_to_test_it(built):
    space = {"__package__": "nanolm.speculative", "__name__": "stub"}
    exec((built / "exercises" / ANSWERS).read_text(encoding="utf-8"), space)
    with pytest.raises(NotImplementedError) as caught:
        space["residual_distribution"](None, None)
    assert str(caught.value) == (
        "exercise 4.1 residual_distribution is not written yet: read notebooks/week04_mini/week04_mini.ipynb, "
        "write it in exercises/speculative/acceptance.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/speculative/test_acceptance.py --exercise residual_distribution"
    )


def test_start_page_links_the_weeks_that_exist(built):
    (page,) = cells(built, "notebooks/start.ipynb").values()
    assert f"[Speculative decoding is exact]({LESSON}/{LESSON}.ipynb) | 3 and 1 in words | 20 |" in page.source
    assert "| 5 | Quantization (not yet)" in page.source


def test_a_notebook_edited_by_hand_stops_the_build_which_says_how_to_keep_the_edit(course):
    change(course / SOLUTION, "Some prose.", "Better prose.")
    before = everything(course)
    with pytest.raises(CourseError, match=f"edited by hand.*{SOLUTION}\n.*course adopt {SOLUTION}"):
        build(course)
    assert everything(course) == before
    build(course, force=True)
    assert check_build(course) == []


def test_one_file_can_be_given_back_while_the_others_keep_their_answers(course):
    for name in (ANSWERS, CACHE):
        (course / "exercises" / name).write_text("# my answer\n", encoding="utf-8")
    outcome = build(course, overwrite=[f"exercises/{CACHE}"])
    assert (outcome.written, outcome.kept) == ([f"exercises/{CACHE}"], [f"exercises/{ANSWERS}"])
    with pytest.raises(CourseError, match=rf"exercises/cash\.py is no built file; those are .*exercises/{CACHE}"):
        build(course, overwrite=["exercises/cash.py"])


@pytest.mark.parametrize("content", [b"# my answer\n", "# Zürich".encode("latin-1")])
def test_a_file_of_exercises_with_answers_is_named_and_only_a_release_counts_it_as_a_difference(course, content):
    (course / "exercises" / ANSWERS).write_bytes(content)
    assert answered(course) == [f"exercises/{ANSWERS}"] and check_build(course) == []
    change(course / "nanolm" / CACHE, "Raises:", "Raised:", 1)
    assert not [report for report in check_build(course) if ANSWERS in report]
    assert f"exercises/{CACHE} differs from its source" in "\n".join(check_build(course))


def test_a_release_has_no_answers(course):
    change(course / "exercises" / ANSWERS, "import", "# mine\nimport", 1)
    assert f"exercises/{ANSWERS} differs from its source" in check_build(course, released=True)[0]


def test_a_student_s_answers_in_exercises_are_left_alone_and_named(course):
    mine = course / "exercises" / ANSWERS
    mine.write_text("# my answer\n", encoding="utf-8")
    change(course / "nanolm" / ANSWERS, "return excess / total", "return excess / excess.sum()")
    outcome = build(course)
    assert outcome.kept == [f"exercises/{ANSWERS}"] and SOLUTION in outcome.written
    assert mine.read_text(encoding="utf-8") == "# my answer\n"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("# points: 4\n", "", "lacks '# points"),
        ("# points: 4\n", "# points: many\n", "points is many"),
        ("# difficulty: 2\n", "# difficulty: 6\n", "difficulty is 6; it must be a whole number from 1 to 5"),
        ("# why: it is the algorithm.\n", "# whi: it is\n", "is no field"),
        (
            "# exercise: residual_distribution",
            "# exercise: residual_distributoin",
            "defines no .*residual_distribution",
        ),
        ("# exercise: update, advance", "# exercise: update, advnce", "defines no 'KVCache.advnce'"),
        ("# exercise: update, advance", "# exercise: __init__", "needs a docstring to be an exercise"),
        (
            "import accept_or_resample  # exercise: accept_or_resample",
            "import residual_distribution  # exercise: residual_distribution",
            "is exercise 4.1 and again 4.2",
        ),
        ("nanolm.cache import", "nanolm.cash import", "there is no nanolm.cash"),
        ("import KVCache ", "import KVCash ", "nanolm.cache gives no KVCash; did you mean KVCache"),
        ("p = torch.tensor(", "p = = torch.tensor(", "invalid syntax in the cell that starts 'p = = torch"),
        ("# ### END SOLUTION", "#", "a written question is Markdown"),
    ],
)
def test_a_malformed_lesson_fails_with_the_place_named_and_leaves_the_old_files(course, old, new, complaint):
    change(course / "solutions" / f"{LESSON}.py", old, new)
    before = everything(course)
    with pytest.raises(CourseError, match=complaint):
        build(course)
    assert everything(course) == before


def test_two_answers_that_mean_two_things_by_one_name_stop_the_build(course):
    # The answer to KVCache calls attend; here accept_or_resample would bring another one.
    speculative = course / "nanolm" / ANSWERS
    change(speculative, "from ..sampling.rng import Rng", "from ..sampling.rng import Rng as attend")
    change(speculative, "draft_token: int, rng: Rng", "draft_token: int, rng: attend")
    meant = r"KVCache needs nanolm\.attention\.dot_product\.attend, and an earlier answer of this notebook"
    with pytest.raises(CourseError, match=rf"{meant} nanolm\.sampling\.rng\.Rng"):
        build(course)


def test_windows_line_ends_are_no_edit(course):
    path = course / RELEASE
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert check_build(course) == []
    assert build(course).written == []


def test_a_notebook_that_no_lesson_makes_any_more_goes_unless_somebody_has_edited_it(course):
    old = {
        name: f"{folder}/{LESSON}/{LESSON}.ipynb" for name, folder in (("solved", "solutions"), ("open", "notebooks"))
    }
    change(course / old["open"], "Some prose.", "Some prose of mine.")
    shutil.move(course / "solutions" / f"{LESSON}.py", course / "solutions" / "week04_other.py")
    build(course)
    assert not (course / old["solved"]).exists() and (course / old["open"]).exists()
    assert f"{old['open']} has no source: no lesson makes it any more, delete it" in check_build(course)
