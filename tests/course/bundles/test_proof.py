"""The proof that no solution is in a release finds each kind of line that could slip in."""

import json

import pytest

from course.bundles.proof import leaks, secrets
from course.paths import ROOT
from course.registry import registry

MODEL_ANSWER = (
    "5. Sum of 1 and 4: min(p(y), q(y)) + p(y) − min(p(y), q(y)) = p(y). If α = 1 nothing is ever rejected and 1 alone"
)
MARK_SCHEME = "argument by example or simulation only: at most 2."
BODY = "excess = (target_probs - draft_probs).clamp(min=0)"


@pytest.fixture(scope="module")
def secret():
    return secrets(registry(), ROOT)


def found_in(secret, path, text):
    return leaks({path: text.encode("utf-8")}, secret)


@pytest.mark.parametrize("line", [MODEL_ANSWER, MARK_SCHEME])
@pytest.mark.parametrize("path", ["tests/notes.txt", "README.md", "course/registry.json", "nanolm/a.py"])
def test_a_line_of_a_model_answer_or_mark_scheme_is_found_anywhere(secret, path, line):
    assert found_in(secret, path, f"before\n   {line}\nafter\n")


def test_a_line_of_an_answer_s_code_is_found_in_the_engine(secret):
    assert found_in(secret, "nanolm/speculative/acceptance.py", f"def f():\n    {BODY}\n")
    assert found_in(secret, "tests/helpers/fakes.py", f"{BODY}\n")


def test_a_line_of_an_answer_is_found_in_a_cell_and_in_its_output(secret):
    for cell in (
        {"source": [MODEL_ANSWER]},
        {"source": "", "outputs": [{"text": [f"{MODEL_ANSWER}\n"]}]},
        {"source": "", "outputs": [{"data": {"text/plain": f"a\n{MODEL_ANSWER}\nb"}}]},
    ):
        text = json.dumps({"cells": [{"cell_type": "code", **cell}]}, ensure_ascii=False)
        assert found_in(secret, "notebooks/a.ipynb", text)


def test_a_short_usual_line_in_a_test_is_no_copy(secret):
    assert not found_in(secret, "tests/cache/test_contiguous.py", "cache.advance(1)\n")


def test_what_the_engine_says_elsewhere_is_no_secret(secret):
    assert not found_in(secret, "nanolm/a.py", "return {}\nimport torch\n")
