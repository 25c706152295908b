"""The overlay: one exercise from an answer, everything else from the reference, whatever shape the answer has."""

import contextlib
import functools
from types import ModuleType

import pytest
import torch

from course.errors import CourseError
from course.grading.overlay import overlay

REFERENCE = """
import functools, math
SCALE = 10

def base(x):
    return x + 1

def asked(x):
    return base(x) * SCALE

class Parent:
    def start(self):
        return 100

class Cache(Parent):
    def __init__(self):
        self.length = 0

    def update(self, n):
        return "reference"

    @property
    def size(self):
        return "reference"
"""


@pytest.fixture(autouse=True)
def _exercises(monkeypatch):
    monkeypatch.setattr("course.grading.overlay.exercises", lambda: {"asked", "base", "Cache"})


def module(source=REFERENCE):
    made = ModuleType("nanolm.made_up")
    exec(source, vars(made))
    return made


def answers(source, **extra):
    space = {"__name__": "__main__", **extra}
    exec(source, space)
    return space


def test_the_asked_function_comes_from_the_answer_and_all_it_calls_from_the_reference():
    mine = answers("def base(x):\n    return 'wrong'\n\ndef asked(x):\n    return base(x)")
    impl = overlay(module(), ["asked"], mine, "here")
    assert impl.asked(1) == 2, "a wrong answer to another exercise must not be used"
    assert impl.base(1) == 2


def test_a_helper_of_the_answer_with_the_engine_s_name_is_the_one_it_calls():
    # Exchanged behind the student's back, it could break a right answer, and nobody would see why.
    reference = REFERENCE + "\ndef halve(x):\n    return x // 2\n"
    mine = answers("def halve(x):\n    return x / 2\n\ndef asked(x):\n    return halve(x)")
    impl = overlay(module(reference), ["asked"], mine, "here")
    assert impl.asked(1) == 0.5


def test_helpers_imports_and_constants_of_the_answer_are_found_and_see_the_reference():
    mine = answers(
        "import itertools\nSTEP = 5\ndef helper(x):\n    return base(x) + STEP\ndef asked(x):\n    return helper(x)"
    )
    assert overlay(module(), ["asked"], mine, "here").asked(1) == 7


def test_defaults_and_closures_survive():
    source = (
        "def make():\n    k = 3\n    def asked(x, *, y=4):\n        return x + y + k\n    return asked\nasked = make()"
    )
    assert overlay(module(), ["asked"], answers(source), "here").asked(1) == 8


def test_a_decorated_function_stays_decorated():
    source = "@torch.inference_mode()\ndef asked(x):\n    return base(x), torch.is_inference_mode_enabled()"
    assert overlay(module(), ["asked"], answers(source, torch=torch), "here").asked(1) == (2, True)
    source = "@contextlib.contextmanager\ndef asked(x):\n    yield base(x)"
    with overlay(module(), ["asked"], answers(source, contextlib=contextlib), "here").asked(1) as value:
        assert value == 2
    source = "@functools.lru_cache\ndef asked(x):\n    return base(x)"
    assert overlay(module(), ["asked"], answers(source, functools=functools), "here").asked(1) == 2


def test_a_decorator_of_the_answer_s_own_is_followed():
    source = """def twice(f):
    def call(x):
        return 2 * f(x)
    return call

@twice
def asked(x):
    return base(x)

def base(x):
    return "wrong"
"""
    assert overlay(module(), ["asked"], answers(source), "here").asked(1) == 4


def test_a_generator_stays_one():
    assert list(overlay(module(), ["asked"], answers("def asked(x):\n    yield base(x)"), "here").asked(1)) == [2]


def test_a_method_is_taken_into_a_subclass_with_the_rest_of_the_reference():
    source = """class Cache:
    def __init__(self):
        self.length = "wrong"
    def update(self, n):
        return self._mine(n) + self.length + self.start()
    def _mine(self, n):
        return base(n)
    size = 'wrong'"""
    cache = overlay(module(), ["Cache.update"], answers(source), "here").Cache()
    assert cache.update(1) == 2 + 0 + 100
    assert cache.size == "reference"


def test_super_in_a_method_means_the_reference_s_parent():
    source = "class Cache(Parent):\n    def update(self, n):\n        return super().start() + n"
    reference = module()
    mine = answers(source, Parent=reference.Parent)
    assert overlay(reference, ["Cache.update"], mine, "here").Cache().update(1) == 101


def test_a_property_is_taken_as_one():
    source = "class Cache:\n    @property\n    def size(self):\n        return base(self.length)"
    assert overlay(module(), ["Cache.size"], answers(source), "here").Cache().size == 1


@pytest.mark.parametrize(
    ("source", "target", "complaint"),
    [
        ("x = 1", "asked", "here defines no asked"),
        ("class Cache:\n    pass", "Cache.update", "here defines no Cache.update"),
        ("from nanolm.sampling.rng import Rng as asked", "asked", "nanolm's own"),
    ],
)
def test_an_answer_that_is_missing_or_the_reference_itself_is_refused(source, target, complaint):
    with pytest.raises(CourseError, match=complaint):
        overlay(module(), [target], answers(source), "here")
