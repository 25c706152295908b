"""The audit: it grades cases as students' work is graded, notices a weak test, and goes on where it was broken off."""

import json

import pytest
from typer.testing import CliRunner

from course.audit.audit import Row, cases, rates
from course.audit.cases import Mistake, Right, folder_of, mistakes_in, notebook_of, right_in
from course.audit.report import Plan, graded
from course.audit.run import AGAIN, RIGHT, WRONG, Result, audit_mistake, audit_reference, audit_right
from course.audit.sentences import sentences
from course.audit.store import keep, key, load
from course.cli import app
from course.errors import CourseError
from course.grading.runner import run_exercises
from course.paths import ROOT, read
from course.registry import find, registry

SEED = 3
RESIDUAL = find("residual_distribution")
# All cases of an exercise are run here, and this one's tests only multiply whole numbers: 66 s with 4.1, 5 s with it.
QUICK = find("windowed_cache_bytes")
ABSOLUTE = next(mistake for mistake in mistakes_in(RESIDUAL) if "clamp" in mistake.old or "abs" in mistake.new)


def result(**changes):
    """A wrong answer, caught and named by the test meant for it, but for what is changed."""
    values = {
        **{"exercise": "4.1", "kind": WRONG, "name": "x", "seed": SEED, "accepted": False, "caught": True},
        **{"named": True, "named_first": True, "share": 0.5, "said": "", "seconds": 0.1},
    }
    return Result(**values | changes)


# --- one case ------------------------------------------------------------------------------------------------------


def test_a_planted_mistake_is_caught_and_named_as_a_student_s_file():
    found = audit_mistake(RESIDUAL, ABSOLUTE, SEED)
    assert (found.accepted, found.caught, found.named) == (False, True, True)
    assert 0 <= found.share < 1


def test_a_weak_test_planted_on_purpose_is_found():
    """With every test but the refusals made to pass, the mistake is accepted, and the audit says so."""
    tests = {outcome.test.partition("[")[0] for outcome in all_tests(RESIDUAL)}
    found = audit_mistake(RESIDUAL, ABSOLUTE, SEED, weak=tests)
    assert found.accepted and found.is_fault


def test_a_test_that_is_weakened_is_missed_even_where_another_one_catches_the_mistake():
    found = audit_mistake(RESIDUAL, ABSOLUTE, SEED, weak=[ABSOLUTE.test])
    assert not found.caught and found.is_fault


def all_tests(exercise):
    with folder_of(exercise, read(ROOT / "nanolm" / exercise.file)) as answers:
        return run_exercises([exercise], answers, seed=SEED).outcomes


def test_the_engine_s_own_text_is_accepted_as_an_answer():
    assert audit_reference(RESIDUAL, SEED).accepted


def test_a_right_answer_is_graded_in_the_notebook_s_namespace_after_the_set_up_cell():
    answer = Right("a loop", right_in(RESIDUAL)[0].text)
    assert "import torch" not in answer.text  # the lesson's set-up cell brings it
    assert audit_right(RESIDUAL, answer, SEED).accepted


def test_a_wrong_answer_among_the_right_ones_is_a_false_reject_with_what_was_said():
    wrong = Right("half of it", "def residual_distribution(target_probs, draft_probs):\n    return target_probs / 2\n")
    found = audit_right(RESIDUAL, wrong, SEED)
    assert found.is_fault and found.said


def test_an_answer_leaves_no_module_behind():
    import sys

    before = set(sys.modules)
    with folder_of(RESIDUAL, read(ROOT / "nanolm" / RESIDUAL.file)) as answers:
        run_exercises([RESIDUAL], answers, seed=SEED)
    assert {name for name in set(sys.modules) - before if name.startswith("answers_")} == set()


def test_a_notebook_answer_keeps_its_own_helpers():
    helper = "def excess(p, q):\n    return (p - q).clamp(min=0)\n"
    text = f"{helper}\n\ndef residual_distribution(p, q):\n    return excess(p, q)\n"
    module = notebook_of(RESIDUAL, Right("helpers", text)).module(RESIDUAL.module, RESIDUAL.targets)
    assert module.excess.__name__ == "excess"


def test_a_mistake_that_fits_no_place_is_refused():
    with pytest.raises(CourseError, match="occurs 0 times"):
        _ = Mistake("x", RESIDUAL.file, "no such text", "", "test_x", "").text


# --- a row ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "is_fault"),
    [
        ({}, False),
        ({"accepted": True, "caught": False, "named": False}, True),
        ({"caught": False, "named": False}, True),
        ({"named": False}, True),
        ({"named_first": False}, False),  # shown in the table, no fault: another test had something true to say
        ({"kind": RIGHT, "accepted": True, "caught": False, "named": False}, False),
        ({"kind": RIGHT, "accepted": False}, True),
        ({"kind": AGAIN, "accepted": False}, True),
    ],
)
def test_a_fault_is_a_wrong_answer_not_caught_by_name_or_a_right_one_refused(changes, is_fault):
    assert result(**changes).is_fault == is_fault


def test_the_two_rates_count_wrong_answers_accepted_and_right_ones_refused():
    row = Row(
        RESIDUAL, [result(), result(accepted=True), *(result(kind=k, accepted=k == RIGHT) for k in (RIGHT, AGAIN))]
    )
    assert rates([row]) == ((1, 2), (1, 2))


def test_a_right_answer_follows_each_wrong_one_in_the_same_process():
    kinds = [case.kind for case in cases(RESIDUAL, SEED)]
    begin = kinds.index(WRONG)
    assert set(kinds[:begin]) == {RIGHT}
    assert kinds[begin::2] == [WRONG] * len(mistakes_in(RESIDUAL)) and set(kinds[begin + 1 :: 2]) == {AGAIN}


def test_a_row_with_few_cases_says_what_is_missing():
    said = "\n".join(Row(RESIDUAL, [result()]).complaints())
    assert "1 planted mistakes, at least 6" in said and "0 right answers in other styles, at least 4" in said
    assert "no mistake breaks the sentence" in said


# --- sentences -----------------------------------------------------------------------------------------------------


def test_the_sentences_of_a_docstring_are_its_paragraphs_and_the_entries_of_its_sections():
    assert [sentence[:30] for sentence in sentences(RESIDUAL)] == [
        "Return the distribution to dra",
        "It holds what the target gives",
        "target_probs: p, the target's ",
        "draft_probs: q, the draft's, (",
        "ValueError: p = q, where nothi",
    ]


def test_no_sentence_is_cut_at_an_abbreviation():
    every = [sentence for exercise in registry() for sentence in sentences(exercise)]
    assert len(every) > 300
    assert not [sentence for sentence in every if sentence.endswith(("et al.", "e.g.", "i.e.")) or len(sentence) < 4]


# --- kept results --------------------------------------------------------------------------------------------------


def test_results_are_kept_line_by_line_and_a_cut_line_is_left_out(tmp_path):
    path = tmp_path / "audit.jsonl"
    keep("one", result(said="½"), path)
    keep("two", result(name="y"), path)
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[:-20], encoding="utf-8")  # killed while it wrote
    assert load(path) == {"one": result(said="½")}
    keep("three", result(name="z"), path)
    assert set(load(path)) == {"one", "three"}, "the next result went on in the line that was cut"
    assert [json.loads(line)["key"] for line in whole.splitlines()] == ["one", "two"]


def test_a_result_is_kept_for_one_text_one_seed_and_one_set_of_tests():
    names = [
        key(RESIDUAL, WRONG, "text", 1, ()),
        key(RESIDUAL, WRONG, "other", 1, ()),
        key(RESIDUAL, WRONG, "text", 2, ()),
        key(RESIDUAL, RIGHT, "text", 1, ()),
        key(RESIDUAL, WRONG, "text", 1, ("weak",)),
        key(find("4.2"), WRONG, "text", 1, ()),
    ]
    assert len(set(names)) == len(names)


def test_an_audit_goes_on_where_it_was_broken_off(tmp_path, monkeypatch):
    monkeypatch.setattr("course.audit.report.load", lambda: load(tmp_path / "kept"))
    monkeypatch.setattr("course.audit.report.keep", lambda name, result: keep(name, result, tmp_path / "kept"))
    first = graded(QUICK.number, Plan(SEED))
    monkeypatch.setattr("course.audit.audit.audit_mistake", broken)
    monkeypatch.setattr("course.audit.audit.audit_right", broken)
    assert graded(QUICK.number, Plan(SEED)) == first  # nothing is run
    with pytest.raises(AssertionError, match="was run"):
        graded(QUICK.number, Plan(SEED, again=True))


def broken(*_):
    raise AssertionError("a case was run")


# --- the command ---------------------------------------------------------------------------------------------------


def test_the_command_shows_a_weak_test_and_ends_with_1(tmp_path, monkeypatch):
    monkeypatch.setattr("course.audit.store.FILE", tmp_path / "audit.jsonl")
    weak = [part for test in sorted({m.test for m in mistakes_in(QUICK)}) for part in ("--weaken", test)]
    found = CliRunner().invoke(app, ["audit", QUICK.number, "--seed", str(SEED), *weak])
    assert found.exit_code == 1 and (tmp_path / "audit.jsonl").exists()
    assert "is not caught by its test" in found.output or "wrong accepted" in found.output
    assert "false accepts: " in found.output and "false rejects: 0 of" in found.output
