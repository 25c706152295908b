"""The serving engine: in whatever batch, at whatever size of pool, each request gets the tokens it would get alone.

Alone is `NanoLM.generate`, in float64. What the engine does beside that (times, refusals, failures) has literals.
"""

import math
from collections import defaultdict
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from poison import draft_poison, poisoned_model
from refusal import assert_refuses
from tiny_models import tiny_latent_model, tiny_model

from nanolm.engine import Engine, Scheduler, drafting
from nanolm.model import NanoLM
from nanolm.paging import BlockAllocator
from nanolm.sampling import Rng, SamplingParams, adjust_rows
from nanolm.varlen import VarlenBatch

MODEL, OTHER = tiny_model(), tiny_model(1)
V = MODEL.config.vocab_size
GREEDY, ENDLESS = SamplingParams(0.0, end_tokens=(3,)), SamplingParams(0.0, end_tokens=())
COMMON = [7, 7, 4, 1, 7, 7, 4, 1, 5, 5, 5, 5, 2, 0]  # beginnings that prompts share, with repeats to look up


@cache
def _alone(prompt, n_new, sampling, seed):
    return MODEL.generate(list(prompt), n_new, sampling, Rng(seed))


def alone(prompt, n_new, sampling=ENDLESS, seed=0):
    return _alone(tuple(prompt), n_new, sampling, seed)


def engine_of(model=MODEL, **changes):
    return Engine(model, **{"n_blocks": 64, "block_size": 4, **changes})


def run(engine, texts=None, ends=None):
    """Serve until nobody is left; {id: tokens} and {id: last output}, added to those given."""
    texts, ends = defaultdict(list) if texts is None else texts, {} if ends is None else ends
    while engine.has_work:
        take(engine.step(), texts, ends)
    return texts, ends


def take(outputs, texts, ends):
    for output in outputs:
        assert output.id not in ends, f"request {output.id} has ended and got something all the same"
        texts[output.id] += output.tokens
        if output.finish_reason is not None:
            ends[output.id] = output


def assert_nothing_held(engine):
    tree = engine.scheduler.prefix
    assert engine.scheduler.allocator.n_used == (tree.n_blocks if tree else 0), "blocks are held after all have ended"
    assert not engine.scheduler.running and not engine.scheduler.waiting


# --- the same tokens as alone ------------------------------------------------------------------------------------


@st.composite
def engines(draw, drafts=(None,)):
    """Sizes of an engine: small pools, so that requests are preempted; small passes, so that prompts run in chunks."""
    has_prefix_cache = draw(st.booleans())
    return {
        "block_size": draw(st.sampled_from([4, 1, 2, 8])),
        "n_blocks": draw(st.integers(3, 14)),
        "max_running": draw(st.sampled_from([8, 3, 1])),
        "max_tokens_per_step": draw(st.sampled_from([64, 7, 3, 1])),
        "prefix_cache": has_prefix_cache,
        "host_blocks": draw(st.sampled_from([0, 4])) if has_prefix_cache else 0,
        "draft": draw(st.sampled_from(drafts)),
        "gamma": draw(st.integers(1, 4)),
    }


@st.composite
def loads(draw, room):
    """Requests (pass of arrival, prompt, new tokens) that fit into the pool one by one."""
    requests = []
    for _ in range(draw(st.integers(1, 8))):
        prompt = COMMON[: draw(st.integers(0, 14))] + draw(st.lists(st.integers(0, V - 1), max_size=4))
        prompt = (prompt or [6])[:room]
        requests.append((draw(st.integers(0, 6)), prompt, min(draw(st.integers(1, 10)), room + 1 - len(prompt))))
    return requests


def served(engine, requests, sampling, events=()):
    """Let requests come and events (pass, "abort" or "fork", which) happen.

    Returns {id: (prompt, n_new, seed, the engine's own request)}, texts and ends.
    """
    asked, texts, ends, now = {}, defaultdict(list), {}, 0
    while engine.has_work or now < 8:
        for i, (arrival, prompt, n_new) in enumerate(requests):
            if arrival == now:
                new = engine.add_request(prompt, n_new, sampling, seed=i)
                asked[new] = (prompt, n_new, i, engine.request(new))
        for _, kind, which in (event for event in events if event[0] == now and asked):
            request = sorted(asked)[which % len(asked)]
            if kind == "abort":
                engine.abort(request)
            elif len(engine.scheduler.running) < engine.scheduler.max_running:
                _fork(engine, request, asked, seed=100 + which)
        take(engine.step(), texts, ends)
        now += 1
    return asked, texts, ends


def _fork(engine, original, asked, seed):
    if original in {request.id for request in engine.scheduler.running}:
        request = engine.request(original)
        # From here on a request of its own: what stands there is its prompt, and its rng begins anew.
        prompt, n_new, new = list(request.tokens), request.n_left, engine.fork(original, seed)
        asked[new] = (prompt, n_new, seed, engine.request(new))


def assert_as_alone(engine, requests, sampling, events=()):
    asked, texts, ends = served(engine, requests, sampling, events)
    for i, (prompt, n_new, seed, _) in asked.items():
        right = alone(prompt, n_new, sampling, seed)
        if i in ends:
            assert texts[i] == right, f"request {i}: {texts[i]}, alone {right}"
            assert ends[i].finish_reason == ("stop" if right[-1] in sampling.end_tokens else "length")
            assert len(ends[i].metrics.token_times) == len(right)
        else:  # called off
            assert texts[i] == right[: len(texts[i])]
    assert_nothing_held(engine)
    assert engine.metrics.peak_blocks <= engine.scheduler.allocator.n_blocks
    assert engine.metrics.n_preemptions == sum(request.n_preemptions for *_, request in asked.values())


EVENTS = st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["fork", "abort"]), st.integers(0, 9)), max_size=3)


@settings(max_examples=40)
@given(st.data())
def test_greedy_requests_get_the_tokens_they_get_alone(data):
    sizes = data.draw(engines())
    requests = data.draw(loads(sizes["n_blocks"] * sizes["block_size"]))
    assert_as_alone(Engine(MODEL, **sizes), requests, GREEDY, data.draw(EVENTS))


@settings(max_examples=40)
@given(st.data())
def test_speculation_changes_no_token_at_temperature_0(data):
    # Of the model itself every drafted token is right, of another hardly any.
    sizes = data.draw(engines(drafts=("prompt-lookup", "itself", "another")))
    sizes["draft"] = {"itself": MODEL, "another": OTHER}.get(sizes["draft"], sizes["draft"])
    requests = data.draw(loads(sizes["n_blocks"] * sizes["block_size"]))
    assert_as_alone(Engine(MODEL, **sizes), requests, GREEDY, data.draw(EVENTS))


SAMPLINGS = [
    SamplingParams(1.0, end_tokens=()),
    SamplingParams(0.7, top_k=4, end_tokens=(3,)),
    SamplingParams(1.5, top_p=0.8, end_tokens=(3, 5)),
    SamplingParams(0.9, top_k=6, top_p=0.9, end_tokens=()),
]


@settings(max_examples=40)
@given(st.data())
def test_sampled_requests_with_seeds_get_the_tokens_they_get_alone(data):
    sizes = data.draw(engines())
    requests = data.draw(loads(sizes["n_blocks"] * sizes["block_size"]))
    assert_as_alone(Engine(MODEL, **sizes), requests, data.draw(st.sampled_from(SAMPLINGS)), data.draw(EVENTS))


def test_requests_with_other_rules_are_served_in_one_pass():
    engine, asked = engine_of(), {}
    for i, sampling in enumerate([*SAMPLINGS, GREEDY, ENDLESS, *SAMPLINGS]):
        asked[engine.add_request(COMMON[: i + 1], 8, sampling, seed=i)] = (COMMON[: i + 1], 8, sampling, i)
    texts, _ = run(engine)
    for i, (prompt, n_new, sampling, seed) in asked.items():
        assert texts[i] == alone(prompt, n_new, sampling, seed), f"request {i}: is its rng or are its rules another's?"


def test_two_requests_with_one_seed_write_one_text():
    sampling = SamplingParams(1.0, end_tokens=())
    first, second = engine_of().generate([[1, 2], [1, 2]], 12, sampling, seeds=[5, 5])
    assert first == second == alone([1, 2], 12, sampling, 5), "rng shared between requests: each needs its own"


def test_a_fork_writes_on_with_randomness_of_its_own():
    engine, sampling = engine_of(), SamplingParams(1.0, end_tokens=())
    a = engine.add_request([1, 2, 3], 12, sampling, seed=1)
    texts, ends = defaultdict(list), {}
    for _ in range(4):
        take(engine.step(), texts, ends)
    so_far = list(texts[a])
    twin = engine.fork(a, seed=9)
    run(engine, texts, ends)
    assert texts[a] == alone([1, 2, 3], 12, sampling, 1), "the fork changed its original"
    assert texts[twin] == alone([1, 2, 3, *so_far], 8, sampling, 9)
    assert_nothing_held(engine)


def test_right_drafts_save_passes():
    # The prompt's pass gives 1 token, two with 4 right drafted ones 5 each; for the last 2 of 13 one is enough.
    engine, plain = engine_of(draft=MODEL, gamma=4, adaptive=False), engine_of()
    for each in (engine, plain):
        each.generate([[4, 4, 4]], 13, ENDLESS)
    assert (plain.metrics.n_steps, engine.metrics.n_steps) == (13, 4)
    assert [record.n_decode_tokens for record in engine.records] == [0, 5, 5, 2]


def test_1000_requests_at_once_with_a_small_pool():
    engine = engine_of(n_blocks=40, max_running=32)
    prompts = [[i % V, i // V % V, i // V**2 % V] for i in range(1000)]
    texts = engine.generate(prompts, 2, ENDLESS)
    assert len(texts) == 1000
    for i in range(0, 1000, 97):
        assert texts[i] == alone(prompts[i], 2), f"request {i}"
    assert_nothing_held(engine)
    # 31 or 32 at a time, prompt and one pass more: at least 1000 · 2 / 32 passes, and not a third more.
    assert 63 <= engine.metrics.n_steps <= 84


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_a_pool_of_one_block_serves_one_after_the_other(prefix_cache):
    engine = engine_of(n_blocks=1, block_size=8, prefix_cache=prefix_cache)
    prompts = [[1, 2, 3], [1, 2, 3], [4], [5] * 8]
    # 8 positions: 3 of prompt and 6 new tokens, the last of which takes no place. A prompt of 8 leaves one.
    assert engine.generate(prompts, [6, 6, 8, 1], ENDLESS) == [
        alone(prompt, n) for prompt, n in zip(prompts, (6, 6, 8, 1), strict=True)
    ]
    assert engine.metrics.peak_blocks == 1
    assert_nothing_held(engine)


def test_an_equal_beginning_is_computed_once():
    engine, prompt = engine_of(), COMMON[:9]
    assert engine.generate([prompt], 3, ENDLESS) == engine.generate([prompt], 3, ENDLESS) == [alone(prompt, 3)]
    # Two whole blocks of 4 are found the second time: 8 of the 18 tokens looked up.
    assert engine.metrics.hit_rate == pytest.approx(8 / 18)
    assert [record.n_prefill_tokens for record in engine.records if record.n_prefill_tokens] == [9]


@pytest.mark.parametrize("draft", [MODEL, OTHER])
def test_a_request_preempted_after_it_had_drafted_drafts_again(draft):
    # 7 tokens, and 4 drafted behind them that no pass will verify. Run again, 6 a pass, the text has one pending token
    # before anything was written: the draft must not go on behind tokens that were never part of the text.
    engine = engine_of(prefix_cache=False, max_tokens_per_step=6, draft=draft)
    i = engine.add_request(COMMON[:6], 8, ENDLESS)
    texts, ends = defaultdict(list), {}
    take(engine.step(), texts, ends)
    schedule = engine.scheduler.schedule

    def takes_its_blocks():
        engine.scheduler.preempt(engine.request(i))
        engine.scheduler.schedule = schedule
        return schedule()

    engine.scheduler.schedule = takes_its_blocks
    run(engine, texts, ends)
    assert texts[i] == alone(COMMON[:6], 8)


def test_more_that_decode_than_tokens_a_pass_are_served_with_a_draft_too():
    # 1 token a pass and 3 that decode: not one drafted token fits, and fewer than none must not be asked for.
    engine = engine_of(max_tokens_per_step=1, draft="prompt-lookup")
    a = engine.add_request([7], 5, ENDLESS)
    engine.step()
    ids = [a, engine.fork(a), engine.fork(a)]
    texts, _ = run(engine)
    assert [texts[i] for i in ids] == [alone([7], 5)[1:]] * 3


@pytest.mark.parametrize("plain", [False, True])
def test_an_engine_serves_by_the_scheduler_that_is_put_in_its_place(plain):
    # As a lesson does, with the student's own. Three blocks for requests that want 2 and 3: one is preempted, and the
    # other goes on.
    engine = engine_of(n_blocks=3, plain=plain)
    theirs = engine.scheduler = Scheduler(BlockAllocator(3), 4, max_running=2)
    prompts = [[1, 2, 3], COMMON[:6]]
    assert engine.generate(prompts, 6, ENDLESS) == [alone(prompt, 6) for prompt in prompts]
    assert engine.metrics.n_preemptions > 0 and theirs.allocator.n_used == 0
    engine.abort(engine.add_request([1, 2, 3], 6, ENDLESS))
    assert not theirs.waiting, "the request waits on in one scheduler, and another was told that it has ended"


# --- a byte a number ---------------------------------------------------------------------------------------------


# Codes are off by 0.4 % of a head's largest number at most, 8-bit floats by 6 % of each; scores that spread over 10 or
# so by a few hundredths and by a few tenths.
@pytest.mark.parametrize(("kind", "share"), [("int8", 0.03), ("float8", 0.15)])
def test_a_quantized_cache_chooses_tokens_that_are_nearly_the_best(kind, share):
    engine = engine_of(cache_kind=kind)
    prompts = [COMMON[:n] for n in (1, 3, 9, 14)]
    for prompt, text in zip(prompts, engine.generate(prompts, 10, ENDLESS), strict=True):
        scores = MODEL(torch.tensor([prompt + text]))[0, len(prompt) - 1 : -1]
        short = scores.amax(-1) - scores[range(len(text)), text]
        assert short.max() < share * (scores.amax() - scores.amin()), "a token far from the best one was chosen"
    assert_nothing_held(engine)
    assert engine.cache.block_bytes < engine_of().cache.block_bytes / 4, "a byte and a scale against 8 bytes a number"


@pytest.mark.parametrize("kind", ["int8", "float8"])
def test_a_quantized_cache_gives_a_request_the_tokens_it_gets_alone_in_such_a_cache(kind):
    prompts = [COMMON[:n] for n in (1, 3, 9, 14)]
    texts = engine_of(cache_kind=kind).generate(prompts, 10, ENDLESS)
    for prompt, text in zip(prompts, texts, strict=True):
        assert text == MODEL.generate(prompt, 10, ENDLESS, cache_kind=kind)


# --- latent attention --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [{}, {"max_tokens_per_step": 5}, {"n_blocks": 9, "host_blocks": 4}])
@pytest.mark.parametrize("draft", [None, "prompt-lookup", "itself"])
def test_a_model_of_latent_attention_is_served_as_alone(sizes, draft):
    model = tiny_latent_model()
    engine = engine_of(model, draft=model if draft == "itself" else draft, **sizes)
    prompts = [COMMON[:n] for n in (1, 3, 9, 14, 9)]
    for prompt, text in zip(prompts, engine.generate(prompts, 10, ENDLESS), strict=True):
        assert text == model.generate(prompt, 10, ENDLESS)
    assert_nothing_held(engine)


# --- streams -----------------------------------------------------------------------------------------------------


def test_a_stream_yields_token_by_token_what_generate_returns():
    engine, seen = engine_of(), []
    for token in engine.stream([1, 2, 3], 7, ENDLESS):
        seen.append(token)
        assert engine.has_work == (len(seen) < 7), "each token comes when its pass is over, not at the end"
    assert seen == alone([1, 2, 3], 7)


def test_a_stream_serves_the_others_meanwhile():
    engine = engine_of()
    other = engine.add_request([5, 6], 4, ENDLESS)
    assert list(engine.stream([1, 2, 3], 7, ENDLESS)) == alone([1, 2, 3], 7)
    with pytest.raises(ValueError):
        engine.request(other)  # has ended


def test_streams_that_take_turns_lose_nothing():
    engine = engine_of(draft="prompt-lookup")
    streams = [engine.stream(COMMON[:n], 9, ENDLESS) for n in (3, 5, 9)]
    taken = list(zip(*streams, strict=True))
    assert [list(text) for text in zip(*taken, strict=True)] == [alone(COMMON[:n], 9) for n in (3, 5, 9)]


def test_leaving_a_stream_calls_the_request_off():
    engine = engine_of()
    for _ in engine.stream([1, 2, 3], 30, ENDLESS):
        break
    assert not engine.has_work
    assert_nothing_held(engine)


# --- ends --------------------------------------------------------------------------------------------------------


def test_each_request_ends_by_its_own_condition():
    engine, right = engine_of(), alone([1, 2, 3], 12)
    calls = []

    def stop(new):
        calls.append(list(new))
        return len(new) == 5

    ids = [
        engine.add_request([1, 2, 3], 12, ENDLESS),
        engine.add_request([1, 2, 3], 12, ENDLESS, stop=stop),
        engine.add_request([1, 2, 3], 12, SamplingParams(0.0, end_tokens=(right[7],))),
        engine.add_request([1, 2, 3], 1, ENDLESS),
    ]
    texts, ends = run(engine)
    first_end = right.index(right[7]) + 1
    assert [texts[i] for i in ids] == [right, right[:5], right[:first_end], right[:1]]
    assert [ends[i].finish_reason for i in ids] == ["length", "stop", "stop", "length"]
    assert calls == [right[:n] for n in range(1, 6)], "asked after each token, with all new ones and no prompt"


@pytest.mark.parametrize("draft", [MODEL, "prompt-lookup"])
def test_what_was_drafted_behind_an_end_is_no_part_of_the_answer(draft):
    right = alone([1, 2, 3], 12)
    engine = engine_of(draft=draft)
    i = engine.add_request([1, 2, 3], 12, ENDLESS, stop=lambda new: len(new) == 3)
    texts, ends = run(engine)
    assert (texts[i], ends[i].finish_reason) == (right[:3], "stop")
    assert_nothing_held(engine)


def test_the_model_s_own_end_tokens_hold_unless_a_request_has_others():
    model = tiny_model(eos_token_ids=(alone([1, 2, 3], 12)[4],))
    first_end = alone([1, 2, 3], 12).index(model.config.eos_token_ids[0]) + 1
    engine = engine_of(model)
    assert engine.generate([[1, 2, 3]], 12) == [alone([1, 2, 3], first_end)]
    assert engine.generate([[1, 2, 3]], 12, ENDLESS) == [alone([1, 2, 3], 12)]


# --- calling off -------------------------------------------------------------------------------------------------


def test_abort_of_a_request_that_runs_and_of_one_that_waits():
    engine = engine_of(max_running=1)
    running, queued, last = (engine.add_request(COMMON[:n], 6, ENDLESS) for n in (6, 3, 5))
    texts, ends = defaultdict(list), {}
    take(engine.step(), texts, ends)
    engine.abort(queued)
    engine.abort(running)
    run(engine, texts, ends)
    assert texts == {running: alone(COMMON[:6], 6)[:1], last: alone(COMMON[:5], 6)}
    assert list(ends) == [last]
    assert_nothing_held(engine)
    engine.abort(last)  # has ended
    engine.abort(99)  # has never been


def test_abort_of_an_original_leaves_its_fork_alone():
    engine = engine_of()
    a = engine.add_request([1, 2, 3, 4, 5], 6, ENDLESS)
    engine.step()
    twin = engine.fork(a)
    engine.abort(a)
    texts, _ = run(engine)
    assert texts[twin] == alone([1, 2, 3, 4, 5], 6)[1:]


# --- refusals ----------------------------------------------------------------------------------------------------

REFUSED = [
    ("empty", [], 5),
    ("11", [1, 11], 5),
    ("-1", [-1, 2], 5),
    ("max_new_tokens", [1, 2], 0),
    ("max_new_tokens", [1, 2], -3),
    ("context", [1] * 60, 5),  # 65 of 64 positions
    ("pool", [1] * 16, 6),  # 21 places of 20: the last token takes none
]


@pytest.mark.parametrize(("says", "prompt", "n_new"), REFUSED)
def test_a_request_that_cannot_be_served_is_refused_and_the_others_are_served(says, prompt, n_new):
    engine = engine_of(n_blocks=5)
    first = engine.add_request([1, 2, 3], 6, ENDLESS)
    engine.step()
    assert_refuses(says, engine.add_request, prompt, n_new)
    second = engine.add_request([1] * 16, 5, ENDLESS)  # fills the pool to the last place
    texts, ends = run(engine)
    assert texts[first] == alone([1, 2, 3], 6)[1:]
    assert texts[second] == alone([1] * 16, 5)
    assert set(ends) == {first, second}


@pytest.mark.parametrize(
    ("says", "change"),
    [
        ("prompt", {"prompt": [1, 2.0, 3]}),
        ("prompt", {"prompt": "abc"}),
        ("prompt", {"prompt": 7}),
        ("prompt", {"prompt": [[1, 2]]}),
        ("max_new_tokens", {"max_new_tokens": 2.5}),
        ("max_new_tokens", {"max_new_tokens": "4"}),
        ("sampling", {"sampling": {"temperature": 1.0}}),
        ("end_tokens", {"sampling": SamplingParams(end_tokens=[3, 99])}),
        ("stop_token_ids", {"sampling": SamplingParams(stop_token_ids=(11,))}),
        ("logit_bias", {"sampling": SamplingParams(logit_bias={11: 1.0})}),
        ("seed", {"seed": 1.5}),
        ("seed", {"seed": "1"}),
        ("stop", {"stop": "\n"}),
    ],
)
def test_what_would_break_everybody_s_pass_is_refused_at_the_door(says, change):
    engine = engine_of()
    first = engine.add_request([1, 2, 3], 6, ENDLESS)
    engine.step()
    arguments = {"prompt": [1, 2], "max_new_tokens": 4, "sampling": ENDLESS, **change}
    assert_refuses(says, lambda: engine.add_request(**arguments))
    assert run(engine)[0][first] == alone([1, 2, 3], 6)[1:]


def test_a_prompt_may_be_any_sequence_of_whole_numbers():
    prompts = [1, 2, 3], (1, 2, 3), torch.tensor([1, 2, 3]), range(1, 4)
    assert all(engine_of().generate([prompt], 3, ENDLESS) == [alone([1, 2, 3], 3)] for prompt in prompts)


def test_rules_that_leave_no_token_are_refused_at_the_door():
    nothing = SamplingParams(1.0, logit_bias={token: -math.inf for token in range(V)}, end_tokens=())
    assert_refuses("logit_bias", engine_of().add_request, [1, 2, 3], 4, nothing)


@pytest.mark.parametrize("draft", [None, OTHER, "prompt-lookup"])
@pytest.mark.parametrize("plain", [False, True])
def test_rules_that_leave_no_token_on_the_way_end_their_own_request(draft, plain, monkeypatch):
    # The door cannot see it where the model itself forbids a token: here rules that are made to fail behind 5 tokens.
    def adjust(logits, sampling, text, *others):
        if len(text) > 4:
            raise ValueError("nothing is left")
        return adjust_rows(logits, sampling, text, *others)

    monkeypatch.setattr(drafting, "adjust_rows", adjust)  # for the draft's rows and the target's alike
    engine = engine_of(draft=draft, adaptive=False, plain=plain)
    ids = [engine.add_request([1, 2, 3], 6, rules, 0) for rules in (SamplingParams(1.0, logit_bias={1: 1.0}), ENDLESS)]
    texts, ends = run(engine)
    assert ends[ids[0]].finish_reason == "error" and "nothing is left" in ends[ids[0]].error
    assert texts[ids[1]] == alone([1, 2, 3], 6)


def test_log_probabilities_come_with_the_tokens_they_are_of():
    # Of the model itself, before temperature and top-k; with more asked for than the vocabulary has, all of it.
    sampling = SamplingParams(0.7, top_k=3, logprobs=20, end_tokens=())
    for options in ({}, {"draft": MODEL, "adaptive": False}, {"plain": True}):
        engine = engine_of(**options)
        i = engine.add_request([1, 2, 3], 5, sampling, seed=4)
        got, text = [], [1, 2, 3]
        while engine.has_work:
            for output in engine.step():
                got += zip(output.tokens, output.logprobs, strict=True)
        assert len(got) == 5, i
        for token, told in got:
            with torch.inference_mode():
                right = MODEL(torch.tensor([text]))[0, -1].log_softmax(-1)
            assert told.token == token and math.isclose(told.logprob, right[token].item(), abs_tol=1e-9)
            assert [other for other, _ in told.top] == right.argsort(descending=True).tolist()
            text.append(token)


def test_generate_refuses_before_anything_runs_and_leaves_nothing_behind():
    engine = engine_of()
    with pytest.raises(ValueError, match="11"):
        engine.generate([[1, 2], [11]], 5)
    assert not engine.has_work and not engine.records
    assert_nothing_held(engine)


@pytest.mark.parametrize(("name", "n_new", "seeds"), [("max_new_tokens", [5], None), ("seeds", 5, [1, 2, 3])])
def test_generate_refuses_numbers_that_are_not_one_a_prompt(name, n_new, seeds):
    engine = engine_of()
    assert_refuses(name, engine.generate, [[1, 2], [3]], n_new, ENDLESS, seeds)
    assert not engine.has_work


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("cache_kind", {"cache_kind": "int4"}),
        ("cache_kind", {"model": tiny_latent_model(), "cache_kind": "int8"}),
        ("draft", {"draft": "ouija"}),
        ("draft", {"draft": tiny_model(vocab_size=12)}),
        ("gamma", {"draft": MODEL, "gamma": 0}),
        ("n_blocks", {"n_blocks": 0}),
        ("block_size", {"block_size": 0}),
        ("cache_bytes", {"n_blocks": None, "cache_bytes": 0}),
        ("max_running", {"max_running": 0}),
        ("max_tokens_per_step", {"max_tokens_per_step": 0}),
        ("host_blocks", {"host_blocks": -1}),
    ],
)
def test_an_engine_of_impossible_sizes_is_refused(name, change):
    assert_refuses(name, lambda: engine_of(**change))


def test_fork_is_refused_for_what_does_not_run():
    engine = engine_of(max_running=1)
    running, queued = (engine.add_request([1, 2], 5, ENDLESS) for _ in range(2))
    engine.step()
    assert_refuses("running", engine.fork, queued)
    assert_refuses("max_running", engine.fork, running)
    assert_refuses("request_id", engine.fork, 77)
    texts, _ = run(engine)
    assert texts == {running: alone([1, 2], 5)[1:], queued: alone([1, 2], 5)}


def test_the_pool_is_as_large_as_the_bytes_allow():
    # 2 · 3 layers · 2 heads · 6 numbers · 8 bytes = 576 bytes a position, 2,304 a block of 4.
    assert engine_of(n_blocks=None, cache_bytes=10_000).scheduler.allocator.n_blocks == 4
    assert engine_of(n_blocks=None, cache_bytes=1).scheduler.allocator.n_blocks == 1


# --- what goes wrong ---------------------------------------------------------------------------------------------


SICK_SIZES = [{}, {"max_tokens_per_step": 3}, {"prefix_cache": False}, {"block_size": 1, "n_blocks": 24}]


@pytest.mark.parametrize("kind", ["float", "int8", "float8"])
@pytest.mark.parametrize("sizes", SICK_SIZES)
@pytest.mark.parametrize("draft", [None, "prompt-lookup"])
def test_a_request_whose_logits_are_nan_ends_with_an_error_and_the_others_are_served(kind, sizes, draft):
    model = poisoned_model()
    engine = engine_of(model, cache_kind=kind, draft=draft, **{"n_blocks": 8, **sizes})
    sick = [engine.add_request(prompt, 6, ENDLESS) for prompt in ([10], [1, 2, 10, 4, 5, 6, 7, 8, 9, 1], [1, 2, 3, 10])]
    well = [engine.add_request(prompt, 6, SamplingParams(0.0, end_tokens=(10,))) for prompt in ([1, 2, 3], COMMON[:9])]
    texts, ends = run(engine)
    for i in sick:
        assert (ends[i].finish_reason, texts[i]) == ("error", [])
        assert "NaN" in ends[i].error
    assert all(ends[i].finish_reason in ("stop", "length") for i in well), "a request was poisoned by another"
    assert_nothing_held(engine)
    # Every block has new holders now. A NaN that is left in one would reach them through the mask.
    prompts = [COMMON[:n] for n in (1, 2, 5, 7, 11)]
    for prompt, text in zip(prompts, engine.generate(prompts, 5, SamplingParams(0.0, end_tokens=(10,))), strict=True):
        assert text == model.generate(prompt, 5, SamplingParams(0.0, end_tokens=(10,))) or kind != "float"


def test_generate_and_stream_raise_for_a_request_whose_logits_are_nan():
    engine = engine_of(poisoned_model())
    with pytest.raises(ValueError, match="NaN"):
        engine.generate([[1, 2], [10]], 5)
    with pytest.raises(ValueError, match="NaN"):
        list(engine.stream([10], 5))
    assert not engine.has_work
    assert_nothing_held(engine)


def test_a_drafted_token_whose_logits_are_nan_is_dropped_and_the_text_goes_on():
    model = poisoned_model()
    engine = engine_of(model, draft="prompt-lookup", adaptive=False)
    draft_poison(engine)
    i = engine.add_request([1, 2, 3], 6, ENDLESS)
    texts, _ = run(engine)
    right = model.generate([1, 2, 3], 6, SamplingParams(0.0, end_tokens=(10,)))
    assert texts[i][: len(right)] == right, "the drafted token was never part of the text"


def test_a_stop_condition_that_raises_ends_its_own_request():
    engine = engine_of()

    def broken(new):
        raise KeyError("no such key")

    bad = engine.add_request([1, 2, 3], 6, ENDLESS, stop=broken)
    good = engine.add_request([1, 2, 3, 4], 6, ENDLESS)
    texts, ends = run(engine)
    assert (texts[bad], ends[bad].finish_reason) == ([], "error")
    assert "no such key" in ends[bad].error
    assert texts[good] == alone([1, 2, 3, 4], 6)
    assert_nothing_held(engine)


@pytest.mark.parametrize("draft", [None, "prompt-lookup", MODEL, OTHER])
def test_a_pass_that_raises_can_be_repeated(monkeypatch, draft):
    engine, calls = engine_of(n_blocks=14, draft=draft, max_tokens_per_step=12), []
    real = engine.runner.forward_segments

    def sometimes(*arguments):
        calls.append(1)
        if len(calls) % 3 == 1:
            raise RuntimeError("out of memory")
        return real(*arguments)

    monkeypatch.setattr(engine.runner, "forward_segments", sometimes)
    ids = [engine.add_request(COMMON[:n], 9, ENDLESS) for n in (3, 9, 9, 12)]
    texts, ends, n_failed = defaultdict(list), {}, 0
    while engine.has_work:
        before = engine.scheduler.allocator.n_used
        try:
            take(engine.step(), texts, ends)
        except RuntimeError:
            n_failed += 1
            assert all(r.table.length == r.n_computed for r in engine.scheduler.running), "positions nobody has run"
            assert engine.scheduler.allocator.n_used >= 0 <= before
    assert n_failed >= 3
    assert [texts[i] for i in ids] == [alone(COMMON[:n], 9) for n in (3, 9, 9, 12)]
    assert_nothing_held(engine)


def test_a_copy_that_raises_is_made_before_the_pass_is_repeated(monkeypatch):
    # The fork gets a block of its own in the plan; without the copy it would hold nothing of the text.
    engine = engine_of(prefix_cache=False)
    a = engine.add_request([1, 2, 3, 4, 5], 6, ENDLESS)
    engine.step()
    twin, real = engine.fork(a), engine.cache.copy_blocks

    def once(copies):
        assert copies, "two requests write into one block and none of them has a copy"
        monkeypatch.setattr(engine.cache, "copy_blocks", real)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(engine.cache, "copy_blocks", once)
    with pytest.raises(RuntimeError):
        engine.step()
    texts, _ = run(engine)
    assert texts[a] == texts[twin] == alone([1, 2, 3, 4, 5], 6)[1:]


# --- times -------------------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still but for half a second before each pass of the model and two seconds in it."""
    clock, make, forward = Clock(), VarlenBatch.__init__, NanoLM.forward

    def slow_make(*arguments, **options):
        clock.now += 0.5
        make(*arguments, **options)

    def slow_forward(model, tokens, cache=None, last=None):
        clock.now += 2.0 if isinstance(cache, VarlenBatch) else 0.0
        return forward(model, tokens, cache, last)

    monkeypatch.setattr(VarlenBatch, "__init__", slow_make)
    monkeypatch.setattr(NanoLM, "forward", slow_forward)
    return clock


def test_times_of_requests_and_passes(clock):
    engine = engine_of(max_running=1, prefix_cache=False, clock=clock)
    a = engine.add_request([1, 2, 3], 3, ENDLESS)
    clock.now = 1.0
    b = engine.add_request([1, 2], 1, ENDLESS)
    texts, ends = defaultdict(list), {}
    for starts in (5.0, 10.0, 20.0, 30.0):
        clock.now = starts
        take(engine.step(), texts, ends)
    times = ends[a].metrics
    # Admitted at 5; tokens at 7.5, 12.5 and 22.5.
    assert (times.queue_seconds, times.ttft_seconds) == (5.0, 7.5)
    assert times.inter_token_seconds == [5.0, 10.0]
    assert (times.tpot_seconds, times.end_to_end_seconds) == (7.5, 22.5)
    # b came at 1, waited for a's end and ran at 30.
    times = ends[b].metrics
    assert (times.queue_seconds, times.ttft_seconds, times.end_to_end_seconds) == (29.0, 31.5, 31.5)
    assert math.isnan(times.tpot_seconds)

    # 3, 4 and 5 positions in blocks of 4, then 2.
    used = [record.n_blocks_used for record in engine.records]
    assert used != [1, 1, 0, 0], "counted when those who ended had given their blocks back"
    assert used == [1, 1, 2, 1]
    record = engine.records[0]
    assert (record.at, record.seconds, record.model_seconds) == (5.0, 2.5, 2.0)
    assert [(r.n_prefill_tokens, r.n_decode_tokens) for r in engine.records] == [(3, 0), (0, 1), (0, 1), (2, 0)]
    assert [(r.n_new_tokens, r.n_running, r.n_waiting) for r in engine.records] == [(1, 1, 1)] * 3 + [(1, 1, 0)]

    total = engine.metrics
    assert (total.n_steps, total.seconds, total.own_share) == (4, 10.0, pytest.approx(0.2))
    assert (total.tokens_per_second, total.mean_running, total.utilisation) == (0.4, 1.0, 1.0)
    assert (total.n_preemptions, total.peak_blocks, total.hit_rate) == (0, 2, 0.0)


def test_tokens_of_one_pass_share_its_time(clock):
    # The prompt's pass gives a token, then 3 right drafted ones and a bonus. A pass of either model takes 2.5 seconds:
    # the draft reads the prompt too (5 in all), and drafts 3 tokens in 3 passes before the target checks them (10).
    engine = engine_of(draft=MODEL, gamma=3, adaptive=False, clock=clock)
    i = engine.add_request([1, 2, 3], 5, ENDLESS)
    _, ends = run(engine)
    assert ends[i].metrics.token_times == [5.0, 15.0, 15.0, 15.0, 15.0]
    assert engine.metrics.tokens_per_second == 5 / 15


def test_preemptions_are_counted_by_request_and_in_all():
    # Two requests of 7 and 8 positions want 4 blocks of 4, and 3 are there.
    engine = engine_of(n_blocks=3, prefix_cache=False)
    ids = [engine.add_request([1, 2, 3], n, ENDLESS) for n in (8, 7)]
    texts, ends = run(engine)
    assert [texts[i] for i in ids] == [alone([1, 2, 3], 8), alone([1, 2, 3], 7)]
    assert [ends[i].metrics.n_preemptions for i in ids] == [0, 1]
    assert engine.metrics.n_preemptions == 1


def test_a_fork_s_times_begin_with_the_fork(clock):
    engine = engine_of(clock=clock)
    a = engine.add_request([1, 2, 3], 3, ENDLESS)
    engine.step()
    clock.now = 10.0
    twin = engine.fork(a)
    _, ends = run(engine)
    assert (ends[twin].metrics.arrived_at, ends[twin].metrics.queue_seconds) == (10.0, 0.0)
    assert ends[twin].metrics.ttft_seconds == 2.5


def test_a_step_without_work_does_nothing():
    engine = engine_of()
    assert (engine.step(), engine.has_work, len(engine.records)) == ([], False, 0)
