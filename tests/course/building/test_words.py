"""Words are explained where they first stand, mean one thing, and letters stand in the legend."""

import pytest

from course.building.build import sources
from course.building.lesson import ExerciseCell, Lesson
from course.building.notebook import answer_source
from course.building.words import Word, complaints, legend_letters, words, words_cell
from course.errors import CourseError
from course.paths import ROOT

FOUND, _, MODULES = sources(ROOT)
LESSONS = {lesson.name: lesson for lesson in FOUND}


@pytest.mark.parametrize("name", LESSONS)
def test_words_are_explained_where_they_first_stand_and_letters_in_the_legend(name):
    lesson = LESSONS[name]
    tasks = [task for _, task in lesson.tasks if isinstance(task, ExerciseCell)]
    engine = "\n".join(answer_source(task, MODULES[task.module]) for task in tasks)
    found = complaints(lesson, words(ROOT), engine)
    assert not found, "\n".join(found)


def lesson_of(text, tmp_path, name="week03_made_up"):
    path = tmp_path / f"{name}.py"
    cells = text.split("====")
    path.write_text(
        "\n\n".join(
            "# %% [markdown]\n" + "\n".join(f"# {line}" for line in cell.strip().splitlines()) for cell in cells
        ),
        encoding="utf-8",
    )
    return Lesson(path)


LEGEND = "### The legend\n| letter | meaning |\n|---|---|\n| B | sequences |"


@pytest.mark.parametrize(
    ("text", "word", "said"),
    [
        ("**Decode** runs a token.", Word("decode", "", 3, ("decode",)), ""),
        ("It has to decode. **Decode** runs a token.", Word("decode", "", 3, ("decode",)), "before it is explained"),
        ("Here we decode.", Word("decode", "", 4, ("decode",)), "week 4 explains it"),
        ("Here we decode.", Word("decode", "", 2, ("decode",)), ""),
        ("Nothing.", Word("decode", "", 3, ("decode",)), "in no text"),
        ("`decode()` runs.", Word("decode", "", 4, ("decode",)), ""),
        ("Shapes are `(B, T)`.", Word("decode", "", 2, ("decode",)), "lacks T"),
        ("$$W = B$$", Word("decode", "", 2, ("decode",)), "lacks W"),
        (r"$\text{TPOT} = B$", Word("decode", "", 2, ("decode",)), ""),
    ],
)
def test_what_is_said_of_a_word_and_of_a_letter(text, word, said, tmp_path):
    found = "\n".join(complaints(lesson_of(f"# Week 3\ndecode T\n====\n{LEGEND}\n====\n{text}", tmp_path), [word]))
    assert said in found and bool(said) == bool(found)


def test_a_lesson_without_a_legend_is_refused(tmp_path):
    with pytest.raises(CourseError, match="has no cell with"):
        legend_letters(lesson_of("# Week 3", tmp_path))


def test_a_word_in_two_weeks_is_refused(tmp_path):
    (tmp_path / "solutions" / "words").mkdir(parents=True)
    for week in (1, 2):
        path = tmp_path / "solutions" / "words" / f"week0{week}.toml"
        path.write_text('[[word]]\nname = "head"\nmeans = "one of several"\n', encoding="utf-8")
    with pytest.raises(CourseError, match="a word means one thing"):
        words(tmp_path)


def test_words_of_earlier_weeks_are_at_hand_and_those_of_this_week_are_not(tmp_path):
    known = [Word("pass", "One run.", 1, ("pass", "passes")), Word("draft", "A guess.", 3, ("draft",))]
    cell = words_cell(lesson_of("# Week 3\n====\nTwo passes and a **draft**.", tmp_path), known)
    assert "**pass** (week 1): One run." in cell and "draft" not in cell
    assert words_cell(lesson_of("# Week 3\n====\nNothing.", tmp_path), known) == ""
