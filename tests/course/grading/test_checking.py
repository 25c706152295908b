"""check(name): the published tests against an answer in a namespace, and what it says of each kind of answer."""

import os
import re
import signal
import warnings

import pytest
from answers import notebook_text

from course import CheckFailed, CourseError, NotYetWritten, check
from course.grading import checking
from course.grading.checking import examine

RIGHT = notebook_text("speculative.acceptance", "speculative.speedup", "speculative.generate")


def notebook(definition=""):
    """A namespace in which the exercises of these modules are solved, but for what `definition` redefines."""
    space = {"__name__": "__main__"}
    exec(RIGHT + "\nfrom course import NotYetWritten\n" + definition, space)
    return space


def residual(body):
    return notebook(f"def residual_distribution(target_probs, draft_probs):\n    {body}\n")


def test_a_right_answer_prints_one_line_and_returns_its_points(capfd):
    assert check("residual_distribution", notebook()) == 3
    out, err = capfd.readouterr()
    assert re.fullmatch(r"residual_distribution: \d+ tests passed, 3 points\n", out)
    assert err == ""


@pytest.mark.parametrize("name", ["residual_distribution", "4.1"])
def test_name_and_number_name_the_same_exercise(name, capsys):
    check(name, notebook())
    assert capsys.readouterr().out.startswith("residual_distribution: ")


def test_one_method_of_an_exercise_is_tested_alone_and_earns_nothing_yet(capsys):
    space = {"__name__": "__main__"}
    exec(notebook_text("cache.contiguous"), space)

    def unwritten(self, n):
        raise NotYetWritten("exercise 2.5 is not written yet")

    space["KVCache"].advance = unwritten
    assert check("KVCache.update", space) == 0
    assert capsys.readouterr().out.endswith(' passed, check("KVCache") tests all of it\n')
    with pytest.raises(NotYetWritten):
        examine("KVCache.advance", space)


def test_an_exercise_of_two_methods_says_which_is_unwritten_and_pays_for_the_other(capsys):
    space = {"__name__": "__main__"}
    exec(notebook_text("cache.contiguous"), space)
    space["KVCache"].advance = residual("raise NotYetWritten")["residual_distribution"]
    assert 0 < check("KVCache", space) < 8
    out = capsys.readouterr().out
    assert "not written yet: KVCache.advance\n" in out and "of 8 points for the tests that pass" in out


def test_a_wrong_answer_fails_with_a_paragraph_per_mistake_and_no_traceback():
    with pytest.raises(CheckFailed) as caught:
        examine("residual_distribution", residual("return (target_probs - draft_probs).clamp(min=0)"))
    message = str(caught.value)
    assert message.startswith("residual_distribution: ")
    assert "residual distribution is the positive part of p minus q scaled to one" in message
    assert "not normalised: divide max(p - q, 0) by its sum" in message
    assert "Traceback" not in message and "tests/" not in message and "assert not" not in message
    assert caught.value._render_traceback_() == [message]


def test_an_error_in_the_answer_is_shown_with_its_line():
    with pytest.raises(
        CheckFailed, match=r"NameError: name 'nowhere' is not defined\n +in residual_distribution, line \d+"
    ):
        examine("residual_distribution", residual("return nowhere"))


def test_a_wrong_residual_does_not_fail_the_round():
    assert "passed, " in examine("speculative_round", residual("return 'wrong'"))


def test_an_unwritten_answer_is_one_line():
    with pytest.raises(NotYetWritten) as caught:
        examine("residual_distribution", residual("raise NotYetWritten"))
    assert str(caught.value).startswith("exercise 4.1 residual_distribution is not written yet: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("import sys; sys.exit(0)", "ended the program"),
        ("raise SystemExit", "ended the program"),
        ("import pytest; pytest.skip('no')", "was skipped"),
        ("import pytest; pytest.exit('no', 0)", "was not run"),
        ("raise KeyboardInterrupt", "was not run|KeyboardInterrupt"),
    ],
)
def test_leaving_early_is_no_pass(body, complaint):
    with pytest.raises(CheckFailed, match=complaint):
        examine("residual_distribution", residual(body))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a check has no time limit where there is no alarm signal")
def test_an_endless_loop_is_broken_off_and_named(monkeypatch):
    monkeypatch.setattr(checking, "SECONDS", 1)
    with pytest.raises(CheckFailed, match="still running after 1 seconds: look for a loop"):
        examine("residual_distribution", residual("while True: pass"))


@pytest.mark.parametrize("name", ["residual_distributoin", "speculative.residual_distribution"])
def test_an_unknown_name_is_met_with_the_nearest(name):
    with pytest.raises(CourseError, match=f"no exercise '{name}'; did you mean residual_distribution"):
        examine(name, {})


def test_a_notebook_without_the_answer_is_told_to_run_its_cell():
    with pytest.raises(CourseError, match="residual_distribution is not defined yet in this notebook"):
        examine("residual_distribution", {})


def test_the_imported_reference_is_not_an_answer():
    space = {"__name__": "__main__"}
    exec("from nanolm.speculative import residual_distribution", space)
    with pytest.raises(CourseError, match="run the cell above, where it is written"):
        examine("residual_distribution", space)


def test_a_check_works_in_any_folder_and_writes_nothing_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    filters = list(warnings.filters)
    check("residual_distribution", notebook())
    assert os.listdir(tmp_path) == []
    assert warnings.filters == filters, "the student's warnings settings must stay"


@pytest.mark.parametrize(
    ("body", "said", "points"),
    [
        # Two of seven tests pass: it refuses what is impossible, and where no token is common nothing has to be scaled.
        ("return (target_probs - draft_probs).clamp(min=0)", "0.8 of 3 points for the tests that pass", 0.8),
        ("raise ValueError('target_probs draft_probs shape')", "tests failed", 0),
        ("raise NotYetWritten", "is not written yet", 0),
    ],
)
def test_a_check_that_fails_prints_why_gives_the_share_and_lets_the_next_cell_run(body, said, points, capfd):
    assert check("residual_distribution", residual(body)) == points
    out, err = capfd.readouterr()
    assert said in out and err == ""


def test_a_warning_in_an_answer_costs_nothing():
    body = "import warnings; warnings.warn('hm'); p = target_probs - draft_probs; p = p.clamp(min=0)"
    space = residual(body + "; return right(target_probs, draft_probs)")
    space["right"] = notebook()["residual_distribution"]
    assert check("residual_distribution", space) == 3


def test_the_module_s_constants_survive_an_answer_that_writes_into_them():
    spoil = residual("target_probs.clamp_(max=0.1); return target_probs")
    with pytest.raises(CheckFailed, match="changed its argument target_probs, which is the caller's"):
        examine("residual_distribution", spoil)
    assert check("residual_distribution", notebook()) == 3


def test_a_forgotten_return_is_told_as_one():
    with pytest.raises(CheckFailed, match="residual_distribution returned None: is a `return` missing"):
        examine("residual_distribution", residual("target_probs - draft_probs"))


def test_the_call_that_failed_is_left_in_the_notebook_to_be_made_again(capsys):
    space = residual("return (target_probs - draft_probs).clamp(min=0)")
    check("residual_distribution", space)
    call = space["failing"]
    assert call.name == "residual_distribution" and len(call.args) + len(call.kwargs) == 2
    assert call.again().equal(call.result)
    assert f"The last call of your answer in the first of them: {call}" in capsys.readouterr().out
    assert "residual_distribution(" in str(call) and ") returned " in str(call)


def test_the_call_is_made_again_by_the_answer_as_it_is_now():
    space = residual("raise KeyError('first')")
    check("residual_distribution", space)
    assert isinstance(space["failing"].result, KeyError)
    space["residual_distribution"] = lambda target_probs, draft_probs: "second"
    assert space["failing"].again() == "second"


def test_a_method_that_failed_is_kept_with_the_object_as_it_was_before(capsys):
    space = {"__name__": "__main__"}
    exec(notebook_text("cache.contiguous"), space)
    space["KVCache"].advance = lambda self, n: setattr(self, "length", self.length + n + 1)
    check("KVCache", space)
    call = space["failing"]
    assert call.name.startswith("KVCache.") and call.owner is not None
    assert "KVCache." in capsys.readouterr().out


def test_nothing_is_kept_of_an_answer_that_is_right_or_unwritten():
    for space in (notebook(), residual("raise NotYetWritten")):
        check("residual_distribution", space)
        assert "failing" not in space


def test_a_cell_that_is_no_python_is_told_and_no_older_answer_is_tested_in_its_place():
    space = notebook() | {"In": ["", "def residual_distribution(p, q):\n    return p -", "print(1)"]}
    with pytest.raises(CourseError, match="line 2: invalid syntax: nothing of that cell has been run"):
        examine("residual_distribution", space)
    space["In"].append("def residual_distribution(p, q):\n    return p")
    assert "passed" in examine("residual_distribution", space)


@pytest.mark.parametrize(("numbers", "in_words"), [(["6.1"], False), (["4.1", "4.2"], True)])
def test_questions_in_words_are_those_of_the_same_notebook(numbers, in_words):
    from course.grading.checking import _in_words
    from course.registry import find, questions

    exercise = find(numbers[0])
    of_notebook = [each for each in checking.registry() if each.notebook == exercise.notebook]
    found = _in_words(of_notebook)
    assert set(found) <= {question.number for question in questions() if question.week == exercise.week}
    assert bool(found) or not in_words
