"""What an answer does to its arguments: found, named and put back; and what it may do."""

from types import ModuleType

import numpy as np
import pytest
import torch
from refusal import assert_refuses

from course.grading.guard import guard

DOC = '"""Return something."""'


def guarded(body, arguments="x", doc=DOC, returns="int", **space):
    """The function `asked` with this body, as a test would get it."""
    source = f"def asked({arguments}) -> {returns}:\n    {doc}\n    {body}\n"
    module, reference = ModuleType("mine"), ModuleType("nanolm.reference")
    for made in (module, reference):
        vars(made).update(space)
        exec(source, vars(made))
    return module, guard(module, ["asked"], reference)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("x.clamp_(max=1); return 1", torch.tensor([1.0, 2.0, float("nan")])),
        ("x += 1; return 1", torch.ones(2, 2)),
        ("x[0] = 9; return 1", np.arange(3)),
        ("x.append(1); return 1", [1, 2]),
        ("x.clear(); return 1", {"a": [1]}),
        ("x['a'].append(2); return 1", {"a": [1]}),
        ("x[1][0] += 1; return 1", ("fixed", torch.zeros(2))),
        ("x.add(5); return 1", {1, 2}),
        ("x.popleft(); return 1", __import__("collections").deque([1, 2])),
    ],
)
def test_a_changed_argument_is_named_and_put_back(body, value):
    before = repr(value)
    module, _ = guarded(body)
    with pytest.raises(AssertionError, match="changed its argument x, which is the caller's"):
        module.asked(value)
    assert repr(value) == before


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("return x.clone().clamp_(max=1).sum()", torch.tensor([1.0, float("nan")])),
        ("y = list(x); y.append(1); return y", [1, 2]),
        ("x = x + 1; return x", np.arange(3)),
        ("return [*x, torch.ones(1)]", [torch.ones(2)]),
    ],
)
def test_work_on_a_copy_is_left_alone(body, value):
    module, _ = guarded(body, torch=torch)
    assert module.asked(value) is not None


def test_an_exercise_that_says_in_place_may_change_its_argument():
    module, _ = guarded("x.append(1); return 1", doc='"""Append to x in place."""')
    values = [0]
    assert module.asked(values) == 1 and values == [0, 1]


def test_a_generator_is_looked_at_when_it_has_ended():
    module, _ = guarded("\n    for item in list(x):\n        x.append(item)\n        yield item", returns="list")
    values = [1, 2]
    with pytest.raises(AssertionError, match="changed its argument x"):
        list(module.asked(values))
    assert values == [1, 2]


@pytest.mark.parametrize(("returns", "told"), [("int", True), ("None", False), ("'int | None'", False)])
def test_none_is_told_as_a_missing_return_only_where_something_is_owed(returns, told):
    module, _ = guarded("x", returns=returns)
    if told:
        with pytest.raises(AssertionError, match="asked returned None: is a `return` missing"):
            module.asked(1)
    else:
        assert module.asked(1) is None


def test_an_answer_that_should_have_refused_and_returned_nothing_is_not_said_to_have_raised_an_error():
    module, _ = guarded("x")
    with pytest.raises(pytest.fail.Exception, match=r"says so; it returned None$"):
        assert_refuses("x", module.asked, -1)


def test_calls_that_came_back_are_counted_and_the_guard_comes_off():
    module, take_off = guarded("return 1 / x")
    before = module.asked
    assert module.asked(2) == 0.5
    with pytest.raises(ZeroDivisionError):
        module.asked(0)
    assert take_off() == 1 and module.asked is not before


def test_an_error_of_the_answer_is_raised_and_the_argument_put_back():
    module, _ = guarded("x.append(1); return x[9]")
    values = [0]
    with pytest.raises(IndexError):
        module.asked(values)
    assert values == [0]


def test_a_call_of_the_answer_by_itself_is_not_looked_at():
    # A recursive answer may hand itself what it has made.
    module, _ = guarded("\n    if len(x) > 2:\n        return x\n    y = [*x, 0]\n    return asked(y)", returns="list")
    assert module.asked([]) == [0, 0, 0]
