"""The self-test of week 0: right answers in any form, mistakes by name, a notebook that runs with NumPy alone."""

import re
import subprocess
import sys

import nbformat
import numpy as np
import pytest
import torch

from course.building.startpage import self_test_page
from course.lab import self_test
from course.lab.self_test import OPEN, QUESTIONS, answer, judged, result
from course.paths import ROOT, read

PAGE = self_test_page(ROOT)
# What a reader types for ... in each question's cell.
SOLUTIONS = {
    1: "(4, 5)",
    2: "(2, 8, 16, 16)",
    3: "(4, 3)",
    4: "x.reshape(2, 4, 2, 3).transpose(0, 2, 1, 3)",
    5: "16 * 512 * 4",
    6: "(0.25, 0.75)",
    7: "(0.25, 0.75)",
    8: "(e := np.exp(scores - scores.max(-1, keepdims=True))) / e.sum(-1, keepdims=True)",
    9: "math.exp(4) / (math.exp(4) + 1)",
    10: "(0.5, 0.5, 0)",
    11: "(15, 19, 23)",
    12: "[30, 40, 50]",
    13: "(37 // 16, 37 % 16)",
    14: "probs[np.arange(3), tokens]",
    15: "np.tril(np.ones((4, 4), bool))",
    16: "(1, 3)",
}


def code():
    return [cell.source for cell in PAGE.cells if cell.cell_type == "code"]


def run(sources):
    space = {}
    for source in sources:
        exec(source, space)


def solved(source):
    number = re.search(r"answer\((\d+), ", source)
    return source.replace("...", SOLUTIONS[int(number[1])]) if number else source


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(self_test, "_said", {})


def test_the_notebook_asks_every_question_once_and_in_order():
    asked = [int(number) for source in code() for number in re.findall(r"answer\((\d+), ", source)]
    text = "\n".join(cell.source for cell in PAGE.cells if cell.cell_type == "markdown")
    assert asked == list(QUESTIONS) == [int(number) for number in re.findall(r"^\*\*(\d+)\.\*\*", text, re.MULTILINE)]
    assert "Sixteen" in text and len(QUESTIONS) == 16


def test_untouched_it_runs_to_the_end_and_says_what_is_open(capsys):
    run(code())
    printed = capsys.readouterr().out
    assert printed.count(OPEN) == 16
    assert "shapes   0 of 5 right, 5 open: not done yet" in printed


def test_with_right_answers_every_cell_says_so(capsys):
    run(solved(source) for source in code())
    printed = capsys.readouterr().out
    assert len(re.findall(r"^\d+: right$", printed, re.MULTILINE)) == 16, printed
    assert printed.count(": ready") == 3


@pytest.mark.parametrize(
    ("number", "wrong", "says"),
    [(number, wrong, says) for number, question in QUESTIONS.items() for wrong, says in question.mistakes],
)
def test_every_mistake_is_met_with_its_own_word(number, wrong, says):
    given = (lambda _: wrong) if number == 8 else wrong
    assert judged(number, given) == f"not yet: {says}"


def test_mistakes_that_people_make_in_code_are_recognised():
    x = np.arange(2 * 4 * 6).reshape(2, 4, 6)
    assert "numbers are mixed" in judged(4, x.reshape(2, 2, 4, 3))
    assert "subtract each row's largest" in judged(8, lambda s: np.exp(s) / np.exp(s).sum(-1, keepdims=True))
    assert "each row should" in judged(8, lambda s: np.exp(s - s.max()) / np.exp(s - s.max()).sum())
    assert "is there a return?" in judged(8, lambda s: None)
    no_keepdims = judged(8, lambda s: np.exp(s - s.max(-1)) / np.exp(s).sum(-1))
    assert no_keepdims.startswith("it ends with ValueError: operands could not be broadcast")
    assert "every row for each token" in judged(14, (np.arange(15).reshape(3, 5) / 10)[:, [4, 0, 2]])


def test_other_answers_are_told_where_to_look():
    assert judged(1, (9, 9)).startswith("not yet: of (n, m) @ (m, k)")
    assert judged(1, "four by five").startswith("not yet: ")


def test_tensors_lists_and_two_decimals_will_do():
    assert judged(15, torch.ones(4, 4).tril().bool()) == "right"
    assert judged(12, [30, 40, 50]) == "right" and judged(9, 0.98) == "right"


def test_the_result_counts_by_topic(capsys):
    for number, question in QUESTIONS.items():
        answer(number, (lambda _: None) if number == 8 else question.right if number != 6 else (1, 3))
    capsys.readouterr()
    result()
    shapes, softmax, indexing = capsys.readouterr().out.splitlines()
    assert shapes.endswith("5 of 5 right, 0 open: ready") and indexing.endswith("6 of 6 right, 0 open: ready")
    assert softmax.endswith("3 of 5 right, 0 open: catch up first, see below")


def test_a_question_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="questions are 1 to 16"):
        answer(17, 0)


def test_it_needs_numpy_alone():
    block = "import sys; sys.modules.update(torch=None, matplotlib=None)\n"
    done = subprocess.run([sys.executable, "-c", block + "\n".join(code())], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_is_built_and_the_start_page_leads_there():
    built = nbformat.read(ROOT / "notebooks" / "self_test.ipynb", as_version=4)
    assert [cell.source for cell in built.cells] == [cell.source for cell in PAGE.cells]
    assert "](self_test.ipynb)" in read(ROOT / "notebooks" / "start.ipynb")
