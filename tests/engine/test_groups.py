"""Tests answers that share a prompt (`add_group`, `fork`), and outputs that come while `generate` or `stream` run."""

import pytest
from refusal import assert_refuses
from tiny_models import tiny_model

from nanolm.engine import Engine
from nanolm.sampling import Rng, SamplingParams

MODEL = tiny_model()
SAMPLED, GREEDY = SamplingParams(1.0, end_tokens=()), SamplingParams(0.0, end_tokens=())
PROMPT = [7, 7, 4, 1, 5, 5, 2, 0, 9]  # 9 tokens: two blocks of 4, and one


def engine_of(**changes):
    return Engine(MODEL, **{"n_blocks": 64, "block_size": 4, **changes})


def alone(seed, n_new=6, prompt=PROMPT):
    return MODEL.generate([prompt], n_new, SAMPLED, Rng(seed))[0]


def run(engine):
    texts, ends = {}, {}
    while engine.has_work:
        for output in engine.step():
            texts.setdefault(output.id, []).extend(output.tokens)
            if output.finish_reason is not None:
                ends[output.id] = output.finish_reason
    return texts, ends


def n_prefilled(engine):
    return sum(record.n_prefill_tokens for record in engine.records)


# --- groups ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix_cache", [True, False], ids=["prefix cache", "no prefix cache"])
@pytest.mark.parametrize("draft", [None, tiny_model(1)], ids=["no draft", "a draft"])
@pytest.mark.parametrize("max_tokens_per_step", [64, 5])
def test_the_answers_of_a_group_run_their_prompt_once(prefix_cache, draft, max_tokens_per_step):
    engine = engine_of(prefix_cache=prefix_cache, draft=draft, max_tokens_per_step=max_tokens_per_step)
    ids = engine.add_group(PROMPT, 6, SAMPLED, seeds=[0, 1, 2, 3])
    texts, ends = run(engine)
    assert [texts[i] for i in ids] == [alone(seed) for seed in range(4)]
    assert set(ends.values()) == {"length"}
    assert n_prefilled(engine) == 9, "9 tokens of prompt, four times wanted and once run"


@pytest.mark.parametrize("plain", [False, True], ids=["fast", "plain"])
@pytest.mark.parametrize("seeds", [[0, 1, 2], None], ids=["seeds", "no seeds"])
@pytest.mark.parametrize("draft", [tiny_model(1), MODEL, "prompt-lookup"], ids=["another", "itself", "look-up"])
@pytest.mark.parametrize("max_tokens_per_step", range(1, 11))
def test_a_group_of_any_chunks_is_not_drafted_for_before_each_has_its_first_token(
    max_tokens_per_step, draft, seeds, plain
):
    """Where a chunk ends before the prompt's last token, the first of a group decodes, and the others wait on it."""
    options = {"plain": plain, "adaptive": False, "max_tokens_per_step": max_tokens_per_step}
    engine = engine_of(prefix_cache=False, draft=draft, **options)
    repeating = [7, 7, 4, 1, 7, 7, 4, 1, 7]
    ids = engine.add_group(repeating, 6, GREEDY if seeds is None else SAMPLED, seeds=seeds or [None] * 3)
    texts, _ = run(engine)
    greedy = MODEL.generate([repeating], 6, GREEDY)[0]
    assert [texts[i] for i in ids] == ([greedy] * 3 if seeds is None else [alone(s, prompt=repeating) for s in seeds])


def test_a_group_holds_its_prompt_once():
    engine = engine_of(prefix_cache=False)
    engine.add_group(PROMPT[:8], 4, SAMPLED, seeds=range(5))
    engine.step()
    assert engine.scheduler.allocator.n_used == 2, "two blocks for all five, until they write"
    engine.step()
    assert engine.scheduler.allocator.n_used == 2 + 5


def test_a_group_larger_than_may_run_is_served_all_the_same():
    engine = engine_of(max_running=2)
    ids = engine.add_group(PROMPT, 6, SAMPLED, seeds=range(5))
    texts, _ = run(engine)
    assert [texts[i] for i in ids] == [alone(seed) for seed in range(5)]


def test_a_group_in_a_pool_too_small_for_all():
    engine = engine_of(n_blocks=5)
    ids = engine.add_group(PROMPT, 6, SAMPLED, seeds=range(5))
    texts, _ = run(engine)
    assert [texts[i] for i in ids] == [alone(seed) for seed in range(5)]


def test_a_follower_that_is_called_off_leaves_the_others():
    engine = engine_of(max_tokens_per_step=4)
    ids = engine.add_group(PROMPT, 6, SAMPLED, seeds=range(4))
    engine.step()
    engine.abort(ids[2])
    texts, ends = run(engine)
    assert {i: texts[i] for i in ends} == {ids[seed]: alone(seed) for seed in (0, 1, 3)}


@pytest.mark.parametrize("n_steps", [0, 1], ids=["while it waits", "in the middle of its prompt"])
def test_a_leader_that_is_called_off_hands_the_prompt_on(n_steps):
    engine = engine_of(max_tokens_per_step=4)
    ids = engine.add_group(PROMPT, 6, SAMPLED, seeds=range(4))
    for _ in range(n_steps):
        engine.step()
    engine.abort(ids[0])
    texts, ends = run(engine)
    assert {i: texts[i] for i in ends} == {ids[seed]: alone(seed) for seed in (1, 2, 3)}
    assert not engine.scheduler.running and not engine.scheduler.waiting


def test_a_group_is_taken_whole_or_not_at_all():
    engine = engine_of()
    for arguments in (
        dict(seeds=[]),
        dict(seeds=[1, 2], stops=[None]),
        dict(seeds=[1, 2.5]),
        dict(seeds=[1, 2], stops=[None, 7]),
        dict(seeds=[1, 2], prompt=[1, 99]),
    ):
        with pytest.raises(ValueError):
            engine.add_group(**{"prompt": PROMPT, "max_new_tokens": 4, "sampling": SAMPLED, **arguments})
        assert not engine.has_work, f"{arguments} was refused, and somebody was taken all the same"


def test_each_answer_has_its_own_stop_condition():
    engine = engine_of()
    stops = [lambda new: len(new) == 2, None, lambda new: len(new) == 4]
    ids = engine.add_group(PROMPT, 6, SAMPLED, seeds=range(3), stops=stops)
    texts, ends = run(engine)
    assert [len(texts[i]) for i in ids] == [2, 6, 4]
    assert [ends[i] for i in ids] == ["stop", "length", "stop"]


# --- forks -------------------------------------------------------------------------------------------------------


def test_a_fork_needs_a_stop_condition_of_its_own_where_the_first_has_one():
    class AfterThree:
        """Counts its calls, as a search for a stop string keeps what it has seen."""

        def __init__(self):
            self.calls = 0

        def __call__(self, new):
            self.calls += 1
            return self.calls == 3

    engine = engine_of()
    first = engine.add_request(PROMPT, 10, SAMPLED, 0, AfterThree())
    engine.step()
    assert_refuses("stop", engine.fork, first)
    twin = engine.fork(first, 1, AfterThree())
    texts, ends = run(engine)
    assert (len(texts[first]), len(texts[twin])) == (2, 3), "the first had one token when it was forked"
    assert ends == {first: "stop", twin: "stop"}


# --- outputs of others -------------------------------------------------------------------------------------------


def test_generate_keeps_what_it_brings_others_for_the_next_step():
    engine = engine_of()
    other = engine.add_request(PROMPT, 3, SAMPLED, 0)
    engine.generate([PROMPT], 6, SAMPLED, [1])
    assert engine.has_work, "the other's outputs have not been handed over"
    texts, ends = run(engine)
    assert (texts, ends) == ({other: alone(0, 3)}, {other: "length"})


def test_stream_keeps_what_it_brings_others_for_the_next_step():
    engine = engine_of()
    other = engine.add_request(PROMPT, 6, SAMPLED, 0)
    assert list(engine.stream(PROMPT, 3, SAMPLED, 1)) == alone(1, 3)
    texts, ends = run(engine)
    assert (texts, ends) == ({other: alone(0)}, {other: "length"})
