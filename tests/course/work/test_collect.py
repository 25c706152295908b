"""course collect: answers out of notebooks, never run, into a folder that NANOLM_IMPL can name."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course.grading.implementation import chosen
from course.grading.outcomes import Outcome
from course.grading.runner import run_exercises
from course.paths import ROOT
from course.registry import find
from course.work.collect import collect

RESIDUAL = """def residual_distribution(target_probs, draft_probs):
    return normalised(positive(target_probs - draft_probs))"""
HELPERS = """import functools
%matplotlib inline
EDGE = 0

def positive(x):
    return x.clamp(min=EDGE)

def normalised(x):
    if x.sum() == 0:
        raise ValueError("nothing is left")
    return functools.reduce(lambda total, part: total / part, [x, x.sum()])
open("a file that running would make", "w")"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, *sources, ids=()):
    cells = [new_code_cell(source) for source in sources]
    for cell, grade_id in zip(cells, ids, strict=False):
        cell.metadata["nbgrader"] = {"grade_id": grade_id}
    nbformat.write(new_notebook(cells=[new_markdown_cell("# prose"), *cells]), path)
    return path


def outcomes(name, into) -> list[Outcome]:
    return run_exercises([find(name)], chosen(str(into))).outcomes


def test_collect_takes_an_answer_with_the_helpers_it_uses_and_runs_nothing(folder):
    notebook = write(folder / "renamed.ipynb", HELPERS, RESIDUAL, ids=["helpers", "residual_distribution"])
    said = collect([notebook], folder / "answers")
    assert f"{notebook}: residual_distribution taken" in said
    assert all(outcome.passed for outcome in outcomes("residual_distribution", folder / "answers"))
    assert not (folder / "a file that running would make").exists()


def test_collect_finds_an_answer_by_name_where_the_ids_are_lost(folder):
    notebook = write(folder / "week04_speculative.ipynb", HELPERS, RESIDUAL)
    assert f"{notebook}: residual_distribution taken" in collect([notebook], folder / "answers")
    assert all(outcome.passed for outcome in outcomes("residual_distribution", folder / "answers"))


def test_what_is_not_answered_stays_a_stub(folder):
    release = ROOT / "notebooks" / "week04_speculative" / "week04_speculative.ipynb"
    said = collect([release], folder / "answers")
    assert f"{release}: residual_distribution is not answered" in said
    assert all(outcome.unwritten for outcome in outcomes("residual_distribution", folder / "answers"))


def test_a_wrong_answer_is_collected_wrong(folder):
    notebook = write(folder / "n.ipynb", "def residual_distribution(p, q):\n  return p", ids=["residual_distribution"])
    collect([notebook], folder / "answers")
    found = outcomes("residual_distribution", folder / "answers")
    assert not any(outcome.unwritten for outcome in found)
    assert not all(outcome.passed for outcome in found)


def test_the_solution_notebook_collected_passes_everything(folder):
    collect([ROOT / "solutions" / "week04_speculative" / "week04_speculative.ipynb"], folder / "answers")
    for name in ("residual_distribution", "speculative_round", "acceptance_rate"):
        found = outcomes(name, folder / "answers")
        assert found and all(outcome.passed for outcome in found)


def test_collecting_twice_fills_one_folder(folder):
    notebook = write(folder / "a.ipynb", HELPERS, RESIDUAL, ids=["helpers", "residual_distribution"])
    rate = "def acceptance_rate(p, q):\n    return p.minimum(q).sum(-1)"
    other = write(folder / "b.ipynb", rate, ids=["acceptance_rate"])
    collect([notebook], folder / "answers")
    collect([other, notebook], folder / "answers")
    for name in ("residual_distribution", "acceptance_rate"):
        assert all(outcome.passed for outcome in outcomes(name, folder / "answers"))
    text = (folder / "answers" / "speculative" / "acceptance.py").read_text(encoding="utf-8")
    assert text.count("def positive") == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"not json", "is not a notebook: it is not JSON"),
        (b"\xff\xfe", "is not a notebook: it is not JSON"),
        (b"[1, 2]", "is not a notebook: it has no list of cells"),
        (b'{"cells": [1, {"cell_type": "code"}]}', "has no exercise of this course in it"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_notebook_is_one_line_and_the_others_go_on(folder, content, complaint):
    bad = folder / "bad.ipynb"
    if content is not None:
        bad.write_bytes(content)
    good = write(folder / "good.ipynb", HELPERS, RESIDUAL, ids=["helpers", "residual_distribution"])
    said = collect([bad, good], folder / "answers")
    assert said[0].startswith(f"{bad}: {complaint}") and "\n" not in said[0]
    assert f"{good}: residual_distribution taken" in said


def test_an_answer_that_is_not_python_is_named_with_its_line(folder):
    notebook = write(
        folder / "n.ipynb", "def residual_distribution(p, q):\n    return p +", ids=["residual_distribution"]
    )
    (said,) = [line for line in collect([notebook], folder / "answers") if "residual" in line]
    assert said == f"{notebook}: residual_distribution its cell, line 2: invalid syntax"
