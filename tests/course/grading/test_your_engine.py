"""`your_engine`: for the length of a `with` nanolm computes with a notebook's answers, and says whose code failed."""

import contextlib
import sys

import pytest
import torch
from answers import notebook_text
from tiny_models import tiny_model

import nanolm.attention
import nanolm.cache
import nanolm.model
from course import NotYetWritten, your_engine
from nanolm.engine import Engine
from nanolm.engine.scheduler import Work

PROMPT = [3, 1, 4, 1, 5]
WEEK_2 = ("attention.rope", "cache.contiguous", "model.attention")
WEEK_6 = ("paging.blocks", "engine.scheduler")


def answers(modules=WEEK_2, **changed):
    """A notebook with a week's answers, which are the reference's text run once more, and what the test exchanges."""
    space = {"__name__": "__main__"}
    exec(notebook_text(*modules), space)
    for name, value in changed.items():
        owner, _, method = name.partition("__")
        setattr(space[owner], method, value) if method else space.__setitem__(name, value)
    return space


def state_of_the_engine():
    modules = {name: dict(vars(m)) for name, m in sys.modules.items() if name.partition(".")[0] == "nanolm" and m}
    classes = [nanolm.cache.KVCache, nanolm.model.Attention]
    return {name: {k: id(v) for k, v in space.items()} for name, space in modules.items()}, [
        {k: id(v) for k, v in vars(c).items()} for c in classes
    ]


def test_the_engine_writes_the_same_with_right_answers_and_counts_them():
    right = tiny_model().generate(PROMPT, 6)
    with your_engine("2.4", "2.5", "2.6", answers=answers()) as parts:
        assert tiny_model().generate(PROMPT, 6) == right
    calls = {part.name: part.calls for part in parts}
    # 6 passes through 3 layers; a rotation in each, and one for the table of angles
    assert calls == {
        "apply_rope": 19,
        "KVCache.update": 18,
        "KVCache.attend": 18,
        "KVCache.advance": 6,
        "KVCache.offset": 6,
        "Attention.forward": 18,
    }


def test_the_serving_engine_runs_them_too():
    right = Engine(tiny_model()).generate([PROMPT, PROMPT[:2]], 6)
    with your_engine("2.4", "2.5", "2.6", answers=answers()) as parts:
        assert Engine(tiny_model()).generate([PROMPT, PROMPT[:2]], 6) == right
    calls = {part.name: part.calls for part in parts}
    assert calls["Attention.forward"] == 18, "6 passes for both requests together, 3 layers"
    # the first pass has two groups of rows, one prompt each; the five others have one
    assert calls["KVCache.attend"] == 3 * (2 + 5)


@pytest.mark.parametrize("where", ["generate", "engine"])
def test_an_answer_that_raises_stops_the_engine_and_is_named(where):
    def broken(self, layer, *_, **__):
        raise RuntimeError("no room for a note in the margin")

    method = "update" if where == "generate" else "attend"
    with (
        pytest.raises(RuntimeError, match="no room") as caught,
        your_engine("2.5", answers=answers(**{f"KVCache__{method}": broken})),
    ):
        tiny_model().generate(PROMPT, 3) if where == "generate" else Engine(tiny_model()).generate([PROMPT], 3)
    (note,) = caught.value.__notes__
    assert note.startswith(f"raised in your KVCache.{method}, exercise 2.5, while the engine ran; ")


def test_an_answer_that_refuses_what_another_gives_it_is_not_accused():
    def without_positions(self, plan, budget):
        request = self.waiting.popleft()
        self.running.append(request)
        plan.work.append(Work(request, request.n_pending))

    engine = Engine(tiny_model())
    with (
        pytest.raises(ValueError, match="positions 0 to") as caught,
        your_engine("6.5", "6.6", answers=answers(WEEK_6, Scheduler__admit=without_positions)),
    ):
        engine.generate([PROMPT], 3)
    assert "if the tests of 6.5 pass, another part gave it what it must not get" in caught.value.__notes__[0]


def test_a_wrong_answer_writes_another_text():
    right = tiny_model().generate(PROMPT, 8)
    with your_engine("2.5", answers=answers(KVCache__offset=property(lambda self: 0))):
        assert tiny_model().generate(PROMPT, 8) != right
    assert tiny_model().generate(PROMPT, 8) == right


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_put_back(fails):
    torch.manual_seed(0)
    tiny_model().generate(PROMPT, 2)  # whatever is loaded on first use is loaded now
    before = state_of_the_engine()
    expected = pytest.raises(KeyError) if fails else contextlib.nullcontext()
    with expected, your_engine("2.4", "2.5", "2.6", answers=answers()):
        assert state_of_the_engine() != before
        if fails:
            raise KeyError
    assert state_of_the_engine() == before


def test_the_reference_runs_in_place_of_what_is_missing_or_unwritten_and_a_line_says_so(capsys):
    def unwritten(self, n):
        raise NotYetWritten("not yet")

    right, before = tiny_model().generate(PROMPT, 6), state_of_the_engine()
    with your_engine("2.5", answers=answers(KVCache__advance=unwritten)) as parts:
        assert tiny_model().generate(PROMPT, 6) == right
    whose = {part.name: part.whose for part in parts}
    assert whose.pop("KVCache.advance") == "reference" and set(whose.values()) == {"yours"}
    with your_engine("2.6", answers={}) as parts:
        assert tiny_model().generate(PROMPT, 6) == right
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "with the reference in place of 2.5 KVCache.advance: not written"
    assert lines[1].startswith("with the reference in place of 2.6 Attention.forward: ")
    assert state_of_the_engine() == before


def test_a_method_that_a_lab_has_put_in_place_is_the_reference_s_and_stops_nothing(capsys):
    space = answers()
    space["KVCache"].update = nanolm.cache.KVCache.update  # as `needs` does for an answer that is missing
    with your_engine("2.5", answers=space) as parts:
        tiny_model().generate(PROMPT, 2)
    assert {part.name for part in parts if part.whose == "reference"} == {"KVCache.update"}
    assert "in place of 2.5 KVCache.update: not written" in capsys.readouterr().out
