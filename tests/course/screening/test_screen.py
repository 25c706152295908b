"""The screen: what no answer needs is found with its line, and what answers do is not."""

import pytest
from handed_in import files_of

from course.audit.cases import right_in
from course.paths import ROOT, read
from course.registry import find, registry
from course.screening.answers import answer_to

RATE = find("acceptance_rate")
BEGIN = "import torch\n\n\n"
FUNCTION = "def acceptance_rate(target_probs, draft_probs):\n"


def findings(text, exercise=RATE, **others):
    files = {exercise.file: text} | {f"{name.replace('__', '/')}.py": other for name, other in others.items()}
    answer = answer_to(exercise, files)
    assert not (answer.missing or answer.unreadable), answer
    return list(answer.findings)


def findings_in(body):
    return findings(BEGIN + FUNCTION + "".join(f"    {line}\n" for line in body.splitlines()))


@pytest.mark.parametrize("exercise", registry(), ids=lambda exercise: exercise.number)
def test_the_engine_s_own_text_is_above_suspicion(exercise):
    answer = answer_to(exercise, {exercise.file: read(ROOT / "nanolm" / exercise.file)})
    assert not (answer.findings or answer.missing or answer.unreadable or answer.unwritten), answer


RIGHT = [(exercise, right) for exercise in registry() for right in right_in(exercise)]


@pytest.mark.parametrize(("exercise", "right"), RIGHT, ids=[f"{each.number}, {right.name}" for each, right in RIGHT])
def test_right_answers_in_other_styles_are_above_suspicion(exercise, right, tmp_path):
    answer = answer_to(exercise, files_of(exercise, right, tmp_path))
    assert not (answer.findings or answer.missing or answer.unreadable or answer.unwritten), answer


@pytest.mark.parametrize(
    "body",
    [
        "class Entry:\n    def __init__(self, x):\n        self.x = x\n    def __lt__(self, y):\n        return True",
        "print(f'{target_probs.shape} of {type(target_probs).__name__}')",
        "assert hasattr(target_probs, 'shape') and getattr(target_probs, 'dtype', None) is not None",
        "raise ValueError('target_probs must be (V,)')",
        "import sys\nreturn min(sys.maxsize, 1)",
        "import math, itertools, functools, collections, heapq, bisect, random",
        "from torch.nn import functional as F\nreturn F.softmax(target_probs, dim=-1)",
        "import numpy as np\nreturn np.minimum(target_probs.numpy(), draft_probs.numpy()).sum(-1)",
        "target_probs.requires_grad = False\ntarget_probs.data = draft_probs",
        "total = torch.zeros(3)\ntotal[1] += 2\nreturn total",
        "from nanolm.sampling import Rng\nrng = Rng(3)\nrng.seed = 4",
        "lines = __name__",
        "import re\nreturn re.compile('[a-z]+').match('a')",
        "nn = torch.nn\nreturn nn.functional.softmax(target_probs, dim=-1)",
        "from math import *\nreturn exp(1)",
        "for name in ('n', 'm'):\n    setattr(self, name, getattr(self, name) + 1)",
        "for name, x in (('n', 1), ('m', 2)):\n    setattr(self.counts, name, x)",
        "return dict(**vars(self.work))",
        "from course import NotYetWritten, check, needs",
    ],
)
def test_what_answers_do_is_no_finding(body):
    assert findings_in(body) == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("import os", "`import os`"),
        ("from os import path", "`from os import path`"),
        ("import torch.utils.cpp_extension as x", "cpp_extension"),
        ("eval('1')", "it uses eval"),
        ("f = open", "it uses open"),
        ("return target_probs.__class__.__bases__", ".__bases__"),
        ("return acceptance_rate.__globals__", ".__globals__"),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    error.__traceback__.tb_frame", ".tb_frame"),
        ("return torch._C", "torch._C"),
        ("return torch.load('x')", "torch.load"),
        ("import numpy\nreturn numpy.ctypeslib", "numpy.ctypeslib"),
        ("from torch import os", "`from torch import os`"),
        ("import random\nreturn random._os.listdir('.')", "random._os"),
        ("torch.allclose = print", "it changes torch.allclose"),
        ("torch.Tensor.item = print", "it changes torch.Tensor.item"),
        ("from torch import Tensor\nTensor.item = print", "it changes Tensor.item"),
        ("torch.__dict__['x'] = 1", "it changes torch.__dict__['x']"),
        ("acceptance_rate.__code__ = None", ".__code__"),
        ("getattr(torch, 'all' + 'close')", "a name that cannot be read here"),
        ("getattr(torch, '_C')", "private"),
        ("class Yes:\n    def __eq__(self, other):\n        return True", "class Yes defines __eq__"),
        ("class Yes:\n    __bool__ = print", "class Yes defines __bool__"),
        ("class Yes(torch.Tensor):\n    pass", "class Yes is made of Tensor"),
        ("class Yes(float):\n    pass", "class Yes is made of float"),
        ("class Yes(metaclass=print):\n    pass", "has a metaclass"),
        ("type('Yes', (), {})", "by a call of type"),
        ("object.__setattr__(target_probs, 'x', 1)", "by __setattr__"),
        ("'{0.__class__}'.format(1)", "has a hidden name of Python in it"),
        ("from course.grading import runner", "no need of grading"),
        ("from dataclasses import make_dataclass", "make_dataclass"),
        ("from typing import get_type_hints", "get_type_hints"),
        ("from operator import attrgetter", "attrgetter"),
        ("for name in ('__class__',):\n    getattr(self, name)", "a name that cannot be read here"),
        ("for name in texts:\n    setattr(self, name, 1)", "it uses setattr"),
        ("for name in ('sum',):\n    setattr(torch, name, print)", "it uses setattr"),
        ("return dict(**vars(torch))", "it uses vars"),
        ("from os import *", "`import os`"),
        ("import torch.utils.data", "utils"),
        ("t = torch\nreturn t.load('x')", "torch.load"),
        ("import nanolm.speculative.acceptance as module\nt = module.torch\nreturn t.os", ".os"),
        ("import enum\nreturn enum.bltns.eval('1')", "enum.bltns"),
        ("match target_probs:\n    case object(__globals__=found):\n        return found", "by a pattern"),
        ("type(target_probs).item = print", "it changes type(target_probs).item, a class"),
        ("for torch.allclose in [print]:\n    pass", "it changes torch.allclose"),
        ("import nanolm.speculative.acceptance as module\nreturn module.torch.load('x')", "torch.load"),
        ("return target_probs.os", "it uses .os"),
        ("class Yes:\n    def __contains__(self, x):\n        return True", "defines __contains__"),
    ],
)
def test_what_no_answer_needs_is_a_finding_with_its_line(body, says):
    found = findings_in(body)
    assert any(says in finding for finding in found), found
    assert all(finding.startswith(f"{RATE.file}, line ") for finding in found)


def test_code_that_no_test_of_the_exercise_reaches_is_not_its_business():
    other = "\n\ndef residual_distribution(p, q):\n    import os\n    return os.getcwd()\n"
    assert findings(BEGIN + FUNCTION + "    return None\n" + other) == []
    assert findings(BEGIN + FUNCTION + "    return residual_distribution\n" + other) != []


@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "@print(eval)\ndef other():\n    pass",
        "def other(x=open('x')):\n    pass",
        "class Other:\n    x = eval('1')",
        "if True:\n    def other():\n        pass\n    eval('1')",
        "help_ = other = lambda: eval('1')",
    ],
)
def test_what_runs_at_the_import_is_every_exercise_s_business(code):
    assert findings(BEGIN + code + "\n\n\n" + FUNCTION + "    return None\n")


def test_a_helper_is_read_and_a_helper_s_helper():
    text = BEGIN + "def one():\n    return two()\n\n\ndef two():\n    import os\n\n\n" + FUNCTION + "    return one()\n"
    assert findings(text) == [f"{RATE.file}, line 9: `import os`: an answer has no need of os"]


def test_a_file_that_the_answer_imports_is_read_with_it():
    text = "from ..sampling.mine import helper\n\n\n" + FUNCTION + "    return helper()\n"
    found = findings(text, sampling__mine="import os\n\n\ndef helper():\n    return None\n")
    assert found == ["sampling/mine.py, line 1: `import os`: an answer has no need of os"]


def test_an_answer_that_is_no_function_statement_is_an_answer():
    text = BEGIN + "acceptance_rate = lambda p, q: torch.minimum(p, q).sum(-1)\n"
    assert findings(text) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def acceptance_rate(:\n", "line 1: "),
        ("x = 1\0\n", "null"),
        ("(" * 300 + ")" * 300, "too many nested parentheses"),
        ("x = " + "-" * 50_000 + "1\n", "nested too deeply"),
        (BEGIN + FUNCTION + "    return " + "-" * 3_000 + "1\n", "nested too deeply"),
        ("#" * 1_000_001, "has 1,000,001 characters"),
    ],
    ids=["syntax", "null byte", "brackets", "minus signs", "fewer of them", "length"],
)
def test_a_text_that_cannot_be_read_is_unreadable(text, says):
    assert says in answer_to(RATE, {RATE.file: text}).unreadable


def test_an_answer_that_is_not_there_is_missing():
    assert "there is no speculative/acceptance.py" in answer_to(RATE, {}).missing
    assert "has no acceptance_rate" in answer_to(RATE, {RATE.file: "x = 1\n"}).missing


def test_a_stub_is_unwritten():
    stub = BEGIN + FUNCTION + "    raise NotYetWritten\n"
    assert "exercise 4.3 acceptance_rate is not written yet" in answer_to(RATE, {RATE.file: stub}).unwritten
