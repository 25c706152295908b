"""Answers as people write them: each is taken, and computes what it computed in the notebook."""

import importlib.util
import json
from functools import cache

import pytest

from course.paths import ROOT, read
from course.registry import find, registry
from course.text.answers import functions, is_stub
from course.text.files import parsed
from course.work.collect import code_of, start
from course.work.taking import Missing, NotAnswered, take

RIGHT = "def acceptance_rate(p, q):\n    return p.minimum(q).sum(-1)"


def cells(*sources, keys=(), kinds=None, tags=None):
    found = []
    for i, source in enumerate(sources):
        metadata = {"nbgrader": {"grade_id": keys[i], "solution": True}} if i < len(keys) and keys[i] else {}
        if tags and i in tags:
            metadata["tags"] = [tags[i]]
        kind = (kinds or {}).get(i, "code")
        found.append({"cell_type": kind, "source": source, "metadata": metadata})
    return parsed(json.dumps({"cells": found}))["cells"]


def taken(name, *sources, **options):
    """Return the module's text with the answer in it, and the notes."""
    exercise = find(name)
    return take(exercise, code_of(cells(*sources, **options), {}, {exercise.slug}), start(exercise.module))


def loaded(text, folder, name):
    """Run the module's text and return what it binds to a name."""
    path = folder / "answer.py"
    path.write_text(text.replace("from ..", "from nanolm."), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("answer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


@pytest.mark.parametrize(
    "sources",
    [
        [f"%%time\n{RIGHT}"],
        [f"!pip install einops\n{RIGHT}\nacceptance_rate?"],
        [f"\ufeff{RIGHT}".replace("\n", "\r\n")],
        ["acceptance_rate = lambda p, q: p.minimum(q).sum(-1)"],
        ["from torch import *\ndef acceptance_rate(p, q):\n    return minimum(p, q).sum(-1)"],
        ["SUM = None\ndef set_up():\n    global SUM\n    SUM = -1\n\ndef acceptance_rate(p, q):\n    set_up()\n"
         "    return p.minimum(q).sum(SUM)"],
        ["import torch.nn.functional as F", "def acceptance_rate(p, q):\n    return (p - F.relu(p - q)).sum(-1)",
         "D, F, V = 1, 2, 3"],
        ["def smaller(p, q):\n    return p.minimum(q)", "def acceptance_rate(p, q):\n    return smaller(p, q).sum(-1)",
         "def smaller(a):\n    return a"],
        ["def acceptance_rate(p, q):\n    return total(p.minimum(q))", "def total(x):\n    return x.sum(-1)"],
        ["AXES = {}\nfor name in ('sum', 'max'):\n    AXES[name] = -1",
         "def acceptance_rate(p, q):\n    return p.minimum(q).sum(AXES['sum'])"],
        ["AXIS = 1\nAXIS -= 2", "def acceptance_rate(p, q):\n    return p.minimum(q).sum(AXIS)"],
        ["import functools", f"{RIGHT}\nacceptance_rate = functools.cache(acceptance_rate)"],
        ["def rate(p, q):\n    return p.minimum(q).sum(-1)\nacceptance_rate = rate"],
        [f"if True:\n    {RIGHT}".replace("\n    return", "\n        return")],
        ["def check_distributions(probs):\n    return probs",
         "def acceptance_rate(p, q):\n    return check_distributions(p).minimum(q).sum(-1)"],
        ["def acceptance_rate(p, q):\n    display(p)\n    return p.minimum(q).sum(-1)"],
        ["def acceptance_rate(p, q):\n    %time both = p.minimum(q)\n    return both.sum(-1)"],
        ["def acceptance_rate(p, q):\n\treturn p.minimum(q).sum(-1)"],
        ["def acceptance_rate(p, q):\n    return p", RIGHT],
        ["def acceptance_rate(p, q):\n    raise NotYetWritten", RIGHT],
        [RIGHT, "def acceptance_rate(p, q):\n    return p +"],
        [f"# α\n{RIGHT}\n# \u2028 \x0c ünï"],
    ],
)  # fmt: skip
def test_a_right_answer_stays_right_however_it_is_written(tmp_path, sources):
    import torch

    text, _ = taken("acceptance_rate", *sources)
    answer = loaded(text, tmp_path, "acceptance_rate")
    p, q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.3, 0.3, 0.4])
    assert answer(p, q) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("sources", "note"),
    [
        (
            ["def acceptance_rate(p, q):\n    return p", RIGHT],
            "acceptance_rate is written 2 times; the last one counts",
        ),
        ([RIGHT, "def acceptance_rate(p, q):\n    return p +"], "one cell with acceptance_rate is not Python"),
    ],
)
def test_what_was_odd_is_said(sources, note):
    _, notes = taken("acceptance_rate", *sources)
    assert len(notes) == 1 and notes[0].startswith(note)


def test_a_copy_that_says_the_same_is_not_worth_a_word():
    assert taken("acceptance_rate", RIGHT, RIGHT)[1] == []


def test_an_answer_in_a_cell_that_became_text_is_read_as_code():
    text, notes = taken("acceptance_rate", RIGHT, keys=["acceptance_rate"], kinds={0: "markdown"})
    assert "p.minimum(q)" in text and notes == ["its cell was no code cell any more; it is read as one"]


def test_a_name_that_only_a_lab_binds_is_taken_from_there_as_a_last_resort():
    answer = "def acceptance_rate(p, q):\n    return p.minimum(q).sum(AXIS)"
    text, _ = taken("acceptance_rate", "AXIS = 0", "AXIS = -1", answer, tags={1: "lab"})
    assert "AXIS = 0" in text and "AXIS = -1" not in text
    assert "AXIS = -1" in taken("acceptance_rate", "AXIS = -1", answer, tags={0: "lab"})[0]


def test_another_exercise_that_an_answer_calls_is_the_engine_s():
    wrong = "def verify_draft(p, q, drafted, rng):\n    return []"
    mine = (
        "def speculative_round(target, draft, text, gamma, rng):\n    return verify_draft(text, residual_distribution)"
    )
    text, _ = taken("speculative_round", wrong, mine)
    assert "return []" not in text
    assert "from nanolm.speculative.acceptance import residual_distribution" in text


def test_a_class_of_another_exercise_is_imported_from_the_engine():
    mine = "def acceptance_rate(p, q):\n    return KVCache"
    text, _ = taken("acceptance_rate", "class KVCache:\n    pass", mine)
    assert "from nanolm.cache.contiguous import KVCache" in text and "class KVCache" not in text


def test_an_import_that_brings_the_engine_s_own_function_is_no_answer():
    with pytest.raises(Missing):
        taken("acceptance_rate", "from nanolm.speculative import acceptance_rate")


def test_a_deleted_cell_and_an_empty_one_are_two_things():
    with pytest.raises(NotAnswered) as empty:
        taken("acceptance_rate", "def acceptance_rate(p, q):\n    raise NotYetWritten")
    assert not isinstance(empty.value, Missing)
    with pytest.raises(Missing):
        taken("acceptance_rate", "x = 1")


def test_of_a_class_each_method_comes_from_the_last_cell_that_has_it_written(tmp_path):
    first = "class KVCache:\n    def update(self, layer, k, v):\n        return LIMIT, self.twice\n    twice = 2\n"
    second = "class KVCache(KVCache):\n\tdef advance(self, n):\n\t\treturn n\n"
    text, notes = taken("KVCache", "LIMIT = 3", first, second)
    assert sorted(note for note in notes) == ["KVCache.attend is not written", "KVCache.offset is not written"]
    made = loaded(text, tmp_path, "KVCache")
    assert made.advance(None, 5) == 5 and made.update(made, 0, 0, 0) == (3, 2)


def test_two_answers_of_a_file_may_mean_two_things_by_one_name(tmp_path):
    first = "def helper(x):\n    return x.sum(-1)\ndef acceptance_rate(p, q):\n    return helper(p.minimum(q))"
    second = "def helper(x):\n    return 'other'\ndef residual_distribution(p, q):\n    return helper(p)"
    exercises = [find("acceptance_rate"), find("residual_distribution")]
    code, text = code_of(cells(first, second)), start(exercises[0].module)
    for exercise in exercises:
        text, _ = take(exercise, code, text)
    import torch

    p = torch.tensor([0.5, 0.3, 0.2])
    assert loaded(text, tmp_path, "acceptance_rate")(p, p) == pytest.approx(1.0)
    assert loaded(text, tmp_path, "residual_distribution")(p, p) == "other"


def test_every_solution_is_taken_whole_and_without_a_word():
    for exercise in registry():
        notebook = exercise.notebook.replace("notebooks/", "solutions/")
        code = code_of(solution(ROOT / notebook))
        text, notes = take(exercise, code, start(exercise.module))
        there = functions(text)
        assert notes == [] and not any(is_stub(there[target]) for target in exercise.targets), exercise.name


@cache
def solution(path):
    return parsed(read(path))["cells"]
