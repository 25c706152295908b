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
        "import sys\nprint(target_probs, file=sys.stderr)",
        "from tqdm.auto import tqdm\nfor _ in tqdm(range(3)):\n    pass",
        "from IPython.display import display\ndisplay(target_probs)",
        "from pprint import pprint\npprint(target_probs)",
        "torch.testing.assert_close(target_probs, draft_probs)",
        "import numpy as np\nnp.testing.assert_allclose(target_probs, draft_probs)",
        "torch.set_num_threads(1)",
        "kind = type(self)\nkind.made = 1",  # of a class of the answer's own
        "nn = torch.nn\nassert hasattr(torch, 'float16')",
        "return sorted([target_probs], key=type)",
    ],
)
def test_what_answers_do_is_no_finding(body):
    assert findings_in(body) == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("import os\nos.getcwd()", "`import os`"),
        ("from os import path\nprint(path)", "`from os import path`"),
        ("import torch.utils.cpp_extension as x\nx.load", "cpp_extension"),
        ("eval('1')", "it uses eval"),
        ("f = open", "it uses open"),
        ("return target_probs.__class__.__bases__", ".__bases__"),
        ("return acceptance_rate.__globals__", ".__globals__"),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    error.__traceback__.tb_frame", ".tb_frame"),
        ("return torch._C", "torch._C"),
        ("return torch.load('x')", "torch.load"),
        ("import numpy\nreturn numpy.ctypeslib", "numpy.ctypeslib"),
        ("from torch import os\nos.getcwd()", "`from torch import os`"),
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
        ("from dataclasses import make_dataclass\nmake_dataclass('A', [])", "make_dataclass"),
        ("from typing import get_type_hints\nget_type_hints(acceptance_rate)", "get_type_hints"),
        ("from operator import attrgetter\nattrgetter('x')", "attrgetter"),
        ("for name in ('__class__',):\n    getattr(self, name)", "a name that cannot be read here"),
        ("for name in texts:\n    setattr(self, name, 1)", "it uses setattr"),
        ("for name in ('sum',):\n    setattr(torch, name, print)", "it uses setattr"),
        ("return dict(**vars(torch))", "it uses vars"),
        ("from os import *", "`import os`"),
        ("import torch.utils.data\ntorch.utils.data", "utils"),
        ("t = torch\nreturn t.load('x')", "torch.load"),
        ("import nanolm.speculative.acceptance as module\nt = module.torch\nreturn t.os", ".os"),
        ("import enum\nreturn enum.bltns.eval('1')", "enum.bltns"),
        ("match target_probs:\n    case object(__globals__=found):\n        return found", "by a pattern"),
        ("type(target_probs).item = print", "it changes type(target_probs).item, a class"),
        ("for torch.allclose in [print]:\n    pass", "it changes torch.allclose"),
        ("import nanolm.speculative.acceptance as module\nreturn module.torch.load('x')", "torch.load"),
        ("return target_probs.os", "it uses .os"),
        ("class Yes:\n    def __contains__(self, x):\n        return True", "defines __contains__"),
        ("import conftest", "`import conftest`"),
        ("from course.grading.runner import run_exercises", "no need of grading"),
        ("read = getattr\nread(torch, 'all' + 'close')", "it hands on getattr"),
        ("list(map(getattr, [torch.nn], ['functional']))", "it hands on getattr"),
        ("make = type\nmake('Yes', (), {})", "it hands on type"),
        ("import math\nheld = [math]\nheld[0].isclose = print", "it hands on math"),
        ("def other(t=torch):\n    t.allclose = print\nother()", "it hands on torch"),
        ("target_probs.__class__.sum = print", "it changes target_probs.__class__.sum, a class"),
        ("kind = type(target_probs)\nkind.sum = print", "it changes kind.sum, a class"),
        ("kind = target_probs.__class__\nkind.sum = print", "it changes kind.sum, a class"),
        ("import tqdm\ntqdm.os.getcwd()", "tqdm.os"),
        ("import numpy as np\nnp.testing.measure('1')", "numpy.testing.measure"),
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
        "import os\nos.getcwd()",
        "@print(eval)\ndef other():\n    pass",
        "def other(x: open('x')):\n    pass",
        "def other(*, x: open('x') = 0):\n    pass",
        "def other(*x: open('x')):\n    pass",
        "def other() -> open('x'):\n    pass",
        "class Other:\n    def other(self, x=open('x')):\n        pass",
        "class Other:\n    @open\n    def other(self):\n        pass",
        "class Other:\n    class Inner:\n        def other(self, x: open('x')):\n            pass",
        "def other(x=open('x')):\n    pass",
        "class Other:\n    x = eval('1')",
        "if True:\n    def other():\n        pass\n    eval('1')",
        "help_ = other = lambda: eval('1')",
    ],
)
def test_what_runs_at_the_import_is_every_exercise_s_business(code):
    assert findings(BEGIN + code + "\n\n\n" + FUNCTION + "    return None\n")


@pytest.mark.parametrize(
    "line",
    [
        *("import os", "import matplotlib.pyplot as plt", "from pathlib import Path", "import pdb, gc, json"),
        *("import pandas as pd", "from scipy.stats import entropy", "from torch.utils.data import DataLoader"),
    ],
)
def test_an_import_that_nothing_uses_is_left_lying(line):
    """As plots, debuggers and other weeks leave them in a notebook; what is imported does not run an answer's code."""
    assert findings(line + "\n" + BEGIN + FUNCTION + "    return None\n") == []
    assert findings_in(line) == []


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("import no_such_library as plt", ""),
        ("from no_such_library import (\n    one,\n    two,\n)", "\n\n\n"),
        ("import no_such_library; x = 1", None),  # a line of two statements stays
        ("import statistics", None),  # of what answers may use, and an answer's other weeks do
        ("from no_such_library import *", None),
    ],
)
def test_an_import_that_is_left_lying_is_not_run_where_the_library_is_not_installed(line, left):
    rest = "\n" + BEGIN + FUNCTION + "    return None\n"
    answer = answer_to(RATE, {RATE.file: line + rest})
    assert answer.files == {RATE.file: (line if left is None else left) + rest}


def test_an_import_that_is_used_is_run():
    text = "import no_such_library as x\n" + BEGIN + FUNCTION + "    return x.answer()\n"
    assert answer_to(RATE, {RATE.file: text}).files == {RATE.file: text}


def test_a_helper_is_read_and_a_helper_s_helper():
    text = (
        BEGIN
        + "def one():\n    return two()\n\n\ndef two():\n    import os; os.getcwd()\n\n\n"
        + FUNCTION
        + "    return one()\n"
    )
    assert findings(text) == [f"{RATE.file}, line 9: `import os`: an answer has no need of os"]


def test_a_file_that_the_answer_imports_is_read_with_it():
    text = "from ..sampling.mine import helper\n\n\n" + FUNCTION + "    return helper()\n"
    found = findings(text, sampling__mine="import os\n\n\ndef helper():\n    return os.name\n")
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
