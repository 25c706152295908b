"""course capstone: one's own engine serves a trace, and the report says whose parts did the work, and how well."""

import re
import shutil
from functools import cache

import pytest
from answers import solve
from capstones import EASY, MACHINE, NO_GOALS, at, work_here, write_load
from typer.testing import CliRunner

from course.capstone import run
from course.capstone.check import Check
from course.capstone.run import capstone, work
from course.capstone.settings import Choices
from course.cli import app
from course.errors import CourseError
from course.paths import read, write
from course.registry import registry

SAMPLING = ["SamplingParams.probs", "temperature_probs", "top_k_filter", "top_p_filter"]
FILTERS, BLOCKS, SCHEDULER = "sampling/filters.py", "paging/blocks.py", "engine/scheduler.py"


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    return write_load(tmp_path_factory.mktemp("capstone"), n=6)


@pytest.fixture
def here(monkeypatch):
    """Workers that are no processes."""
    monkeypatch.setattr(run, "work", work_here)


@pytest.fixture
def answers(untouched, tmp_path):
    """A student's folder: nothing written but how tokens are drawn, which is the reference's text."""
    shutil.copytree(untouched, tmp_path / "answers")
    solve(tmp_path / "answers", FILTERS, "sampling/params.py")
    return tmp_path / "answers"


def with_mistake(answers, file, old, new):
    solve(answers, file)
    text = read(answers / file)
    assert text.count(old) == 1
    write(answers / file, text.replace(old, new))
    return str(answers)


@cache
def reference_of(load):
    return work_here("check", "nanolm", load, Choices(), 60, together=False, **facts(load))


def facts(load):
    return {"machine": vars(MACHINE), "goals": vars(EASY)}


def checked(load, impl):
    return Check.of(
        work_here("check", str(impl), load, Choices(), 60, together=True, **facts(load)), reference_of(load)
    )


def whose(verdict):
    return {part["part"]: part["whose"] for part in verdict.check.working_parts}


def test_with_some_of_it_written_the_report_says_which_parts_are_whose(load, answers, here):
    verdict = capstone(str(answers), at(load), Choices(), rounds=1)
    found = whose(verdict)
    assert {name for name, owner in found.items() if owner == "yours"} == set(SAMPLING)
    others = [part for part in verdict.check.working_parts if part["whose"] == "reference"]
    assert others and all(part["why"] == "not written" for part in others)
    said = " ".join(verdict.in_words())
    assert f"4 of the {len(found)} parts that did the work are yours; the reference stood in" in said
    assert "Written alone, 6 of 6 texts equal the reference's; in a tight cache 18 of 18" in said
    assert "All goals are met." in said and verdict.passed


def test_a_student_of_weeks_1_2_9_and_10_sees_parts_of_each_at_work(load, untouched, tmp_path, here):
    shutil.copytree(untouched, tmp_path / "answers")
    solve(tmp_path / "answers", *{exercise.file for exercise in registry() if exercise.week in (1, 2, 9, 10)})
    check = checked(load, tmp_path / "answers")
    weeks = {part["number"].split(".")[0] for part in check.own_parts}
    assert weeks == {"1", "2", "9", "10"}
    calls = {part["part"]: part["calls"] for part in check.own_parts}
    assert calls["NanoLM.stream"] == {"alone": 6, "tight": 0, "chosen": 0, "plan": 0}
    assert calls["decode_step_time"]["plan"] and calls["KVCache.attend"]["tight"]


def test_with_everything_written_all_is_one_s_own_and_texts_are_compared_whatever_is_chosen(
    load, untouched, tmp_path, here
):
    shutil.copytree(untouched, tmp_path / "answers")
    solve(tmp_path / "answers")
    choices = {"slots": 4, "cache_kind": "int8", "draft": "prompt-lookup", "weight_bits": 8}
    verdict = capstone(str(tmp_path / "answers"), at(load), Choices(**choices), rounds=1)
    found = whose(verdict)
    assert set(found.values()) == {"yours"}
    # Of weeks 4, 5, 6 and 7, with a tight cache, codes and drafts:
    parts = {"Scheduler.preempt", "RadixCache.evict", "BlockTable.fork", "Int8KVCache.update", "quantize"}
    assert parts | {"prompt_lookup", "speculative_round", "verify_draft", *SAMPLING} <= set(found)
    assert verdict.check.equal == {"alone": (6, 6), "tight": (18, 18), "chosen": (6, 6)}
    assert f"All {len(found)} parts that did the work are yours." in verdict.in_words()[0]


def test_with_nothing_written_there_is_no_verdict_and_the_reference_serves_alone(load, untouched, here, monkeypatch):
    tasks = []
    monkeypatch.setattr(run, "work", lambda *asked, **options: tasks.append(asked[:2]) or work_here(*asked, **options))
    verdict = capstone(str(untouched), at(load), Choices(), rounds=2)
    assert [impl for task, impl in tasks if task == "serve"] == ["nanolm"] * 2
    said = " ".join(verdict.in_words())
    assert "is yours: this was the reference with your choices, so there is no verdict and no score." in said
    assert "goals are met" not in said and "Score" not in said and not verdict.passed


def test_the_reference_asked_for_by_name_has_no_verdict_either(load, here):
    assert not capstone("nanolm", at(load), Choices(), rounds=1).has_verdict


@pytest.mark.parametrize(
    ("file", "old", "new", "where", "suspect"),
    [
        (FILTERS, "kept = probs.scatter(-1, order[..., k:], 0.0)", "kept = probs.flip(-1)", "even alone", "3.2"),
        (BLOCKS, "blocks[p // size] * size + p % size", "p", "together in a tight cache", "6.5"),
        (BLOCKS, "copies.append((shared, own))", "copies.append((own, shared))", "together in a tight cache", "6.5"),
        (BLOCKS, "            self.allocator.free(shared)\n", "", "together in a tight cache", "6.5"),
    ],
)
def test_a_wrong_part_is_found_where_it_first_goes_wrong(load, answers, here, file, old, new, where, suspect):
    check = checked(load, with_mistake(answers, file, old, new))
    assert not check.is_right and suspect in check.where_it_went_wrong
    assert f"A part is wrong {where}, so the speed counts for nothing." in check.in_words()
    assert "What ran where it went wrong, and nowhere before: " in check.in_words()


def test_a_block_that_is_never_given_back_is_counted(load, answers, here):
    check = checked(load, with_mistake(answers, BLOCKS, "            self.allocator.free(shared)\n", ""))
    assert check.n_leaked > 0 and all(n == of for n, of in check.equal.values())
    assert f"Of the tight cache {check.n_leaked} blocks were never given back." in check.in_words()


def test_a_rule_that_changes_no_text_is_left_to_the_tests_and_the_report_says_so(load, answers, here):
    late = "self.waiting.appendleft(request)", "self.waiting.append(request)"
    check = checked(load, with_mistake(answers, SCHEDULER, *late))
    assert check.is_right and "Rules that change no text, such as whose turn it is, are checked by" in check.in_words()


def test_an_engine_that_runs_on_and_writes_nothing_is_stopped(load, answers, here):
    kept = "        self.running.remove(request)\n        self._forget_blocks(request)"
    impl = with_mistake(
        answers, SCHEDULER, kept, "        self.running.remove(request)\n        request.n_computed = 0"
    )
    with pytest.raises(CourseError, match=r"passes in a row brought nobody a token|come first"):
        checked(load, impl)


def test_a_planning_function_that_is_wrong_is_shown_beside_the_reference_s_and_moves_no_goal(load, answers, here):
    impl = with_mistake(answers, "budget/pricing.py", "step_seconds / batch_size * 1e6", "step_seconds * 1e6")
    verdict = capstone(impl, at(load, NO_GOALS), Choices(), rounds=1)
    (wrong,) = [line for line in verdict.check.plan if line[1] != line[2]]
    assert wrong == (wrong[0], "0.444 $ a million, at 1,000 tokens/s", "0.028 $ a million, at 1,000 tokens/s")
    assert verdict.at.goals == at(load, NO_GOALS).goals


def test_a_part_that_breaks_is_named_with_its_place(load, answers):
    impl = with_mistake(answers, FILTERS, "    check_top_k(k)\n    if k >=", "    1 / 0\n    if k >=")
    with pytest.raises(CourseError) as error:
        work("serve", impl, load, Choices(), 60)  # in a process of its own
    assert "ZeroDivisionError" in str(error.value) and "raised in your top_k_filter, exercise 3.2" in str(error.value)
    assert f"({FILTERS}, line" in str(error.value) and "in top_k_filter" in str(error.value)


@pytest.mark.slow  # waits for the time limit
def test_a_part_that_loops_for_ever_is_ended(load, answers):
    impl = with_mistake(answers, FILTERS, "    check_top_k(k)\n    if k >=", "    while True: pass\n    if k >=")
    with pytest.raises(CourseError, match="not done after 60 seconds"):
        work("serve", impl, load, Choices(), 60)


def test_the_command_prints_goals_parts_and_verdict_and_exits_with_1_when_there_is_none(
    load, untouched, tmp_path, here
):
    arguments = ["--impl", untouched, "--model", load.model, "--trace", load.trace, "--rate", 0, "--rounds", 1]
    arguments += ["--plot", tmp_path / "plot.png"]
    result = CliRunner().invoke(app, ["capstone", *map(str, arguments)])
    assert result.exit_code == 1, result.output
    for part in ("bare passes of", "Capacity:", "Goal: next token", "The parts that did the work", "no verdict"):
        assert part in result.stdout
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_s_goals_alone_serve_nothing(load, here, monkeypatch):
    monkeypatch.setattr(run, "capstone", lambda *_: pytest.fail("it served"))
    result = CliRunner().invoke(app, ["capstone", "--goals", "--model", load.model, "--trace", load.trace])
    assert result.exit_code == 0 and re.search(r"Load: .* a second, .* (4|5)\d% of the capacity", result.stdout)


@pytest.mark.parametrize(
    ("option", "complaint"),
    [("--weight-bits 7", "must be 32 or 8"), ("--cache-kind int4", "float or int8"), ("--reserve 1", "below 1")],
)
def test_a_choice_that_there_is_not_is_refused(option, complaint):
    result = CliRunner().invoke(app, ["capstone", *option.split()])
    assert result.exit_code and complaint in str(result.exception)


def test_a_trace_that_is_not_there_is_no_traceback():
    result = CliRunner().invoke(app, ["capstone", "--trace", "nowhere.jsonl"])
    assert "the trace cannot be read" in str(result.exception)
