"""Which exercise the capstone accuses: the one whose tests fail, wherever the error came up, and never a right one."""

import shutil

import pytest
from answers import solve
from capstones import at, work_here, write_load
from planted.mistakes import MISTAKES

from course.capstone import run
from course.capstone.run import EngineError, capstone
from course.capstone.settings import Choices
from course.capstone.suspects import Suspects, suspects
from course.errors import CourseError
from course.paths import read, write
from course.registry import find

SCHEDULER = "engine/scheduler.py"
SOLVED = (SCHEDULER, "paging/blocks.py", "sampling/filters.py", "sampling/params.py")
PLANTED = {mistake["name"]: mistake for mistake in MISTAKES if mistake["file"] == SCHEDULER}
# One that breaks in a right answer of another exercise, one that writes wrong texts, one that breaks in the
# reference's innermost line, one that runs on without a token.
FIRST = [
    "a newcomer without its positions",
    "preempt loses what was written",
    "a newcomer missing among the admitted",
    "preempt keeps the blocks",
]


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    return write_load(tmp_path_factory.mktemp("capstone"), n=6)


@pytest.fixture
def answers(untouched, tmp_path, monkeypatch):
    """A student's folder: the scheduler, its blocks and how tokens are drawn are right."""
    monkeypatch.setattr(run, "work", work_here)
    shutil.copytree(untouched, tmp_path / "answers")
    solve(tmp_path / "answers", *SOLVED)
    return tmp_path / "answers"


def said_of(load, answers):
    try:
        verdict = capstone(str(answers), at(load), Choices(), rounds=1)
    except CourseError as error:
        return str(error), True
    return verdict.check.in_words(), not verdict.check.is_exact


def plant(answers, name):
    mistake = PLANTED[name]
    text = read(answers / SCHEDULER)
    assert text.count(mistake["old"]) == 1
    write(answers / SCHEDULER, text.replace(mistake["old"], mistake["new"]))


@pytest.mark.parametrize("name", FIRST)
def test_a_wrong_scheduler_is_accused_and_nobody_else(load, answers, name):
    plant(answers, name)
    said, is_wrong = said_of(load, answers)
    assert is_wrong and "The tests of your exercise 6.6 (Scheduler) fail: mend that first." in said


@pytest.mark.slow  # 40 loads
@pytest.mark.parametrize("name", sorted(set(PLANTED) - set(FIRST)))
def test_any_planted_mistake_that_shows_is_laid_at_the_door_of_its_exercise(load, answers, name):
    plant(answers, name)
    said, is_wrong = said_of(load, answers)
    accused = "fail: mend" in said
    assert accused == is_wrong
    assert not accused or "The tests of your exercise 6.6 (Scheduler) fail" in said
    assert is_wrong or "Rules that change no text, such as whose turn it is, are checked by `course status`" in said


def test_where_all_tests_pass_nobody_is_accused(load, answers, monkeypatch):
    def broken(task, impl, *others, **options):
        if impl != "nanolm" and task == "serve":
            raise EngineError("the engine broke: out of memory", ["3.2", "6.5"])
        return work_here(task, impl, *others, **options)

    monkeypatch.setattr(run, "work", broken)
    said, _ = said_of(load, answers)
    assert said == (
        "the engine broke: out of memory. Yet the tests of your exercises that ran all pass (3.2 and 6.5): "
        "what is wrong here they do not see."
    )


def test_where_it_is_not_known_what_ran_all_that_is_written_is_tested(answers):
    plant(answers, "preempt loses what was written")
    found = suspects(str(answers))
    assert {"3.2", "6.5", "6.6"} <= {each.number for each in found.tested}
    assert [each.number for each in found.failing] == ["6.6"]


def test_several_that_fail_are_listed_and_none_tested_leaves_it_to_the_command():
    two = find("top_k_filter"), find("Scheduler")
    assert Suspects(two, two).in_words() == (
        "The tests of your exercises 3.2 (top_k_filter) and 6.6 (Scheduler) fail: mend those first."
    )
    assert Suspects((), ()).in_words() == "`course status` runs the tests of each exercise."
