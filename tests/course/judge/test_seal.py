"""The seal: what an answer exchanges is named, and what tests do to the engine for a while is put back."""

import math
import sys

import pytest
import torch

from course.grading import outcomes
from course.judge.reference import gone
from course.judge.seal import broken, sealed
from nanolm.sampling import Rng
from nanolm.speculative import acceptance_rate


@pytest.mark.parametrize(
    ("place", "name", "says"),
    [
        (torch, "allclose", "torch.allclose"),
        (torch.Tensor, "item", "torch.Tensor.item"),
        (math, "isclose", "math.isclose"),
        (outcomes, "message_of", "course.grading.outcomes.message_of"),
        (outcomes.Collector, "outcomes", "course.grading.outcomes.Collector.outcomes"),
        (Rng, "bernoulli", "nanolm.sampling.rng.Rng.bernoulli"),
    ],
)
def test_what_was_exchanged_is_named(monkeypatch, place, name, says):
    seal = sealed()
    monkeypatch.setattr(place, name, lambda *a, **k: True)
    assert says in broken(seal)


def test_a_function_with_other_code_is_another(monkeypatch):
    seal = sealed()
    monkeypatch.setattr(outcomes.knows_little, "__code__", (lambda outcome: 0).__code__)
    assert "course.grading.outcomes.knows_little" in broken(seal)


def test_a_name_that_hides_a_built_in_one_is_named(monkeypatch):
    seal = sealed()
    monkeypatch.setattr(outcomes, "all", lambda values: True, raising=False)
    assert broken(seal) == ["course.grading.outcomes.all"]


def test_a_module_in_the_place_of_another_is_named(monkeypatch):
    seal = sealed()
    monkeypatch.setitem(sys.modules, "json", math)
    assert broken(seal) == ["sys.modules.json"]


def test_the_reference_is_gone_for_the_length_of_a_with_and_then_back():
    seal, one = sealed(), torch.ones(1)
    with gone(["acceptance_rate"]), pytest.raises(RuntimeError, match="write it here"):
        acceptance_rate(one, one)
    assert acceptance_rate(one, one) == 1 and broken(seal) == []


def test_what_torch_replaces_by_itself_is_no_finding(monkeypatch):
    """With `torch._dynamo`, which some functions import when they are first called: 2 s, so it is not done here."""
    seal = sealed()
    monkeypatch.setattr(torch, "manual_seed", lambda seed: None)
    assert broken(seal) == []
