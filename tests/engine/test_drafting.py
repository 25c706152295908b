"""Tests `drafting` and what it does to an engine: drafts of many requests at once never change a text.

Alone is `NanoLM.generate` without a draft, in float64. Without a seed a text is one of many; its distribution is
counted (helpers/chernoff.py states the false alarms).
"""

import itertools
from collections import Counter

import pytest
import torch
from chernoff import assert_sampled_from
from tiny_models import tiny_latent_model, tiny_model

from nanolm.engine import Engine
from nanolm.sampling import Rng, SamplingParams

MODEL, OTHER = tiny_model(), tiny_model(1)
V = MODEL.config.vocab_size
SAMPLED = SamplingParams(1.0, end_tokens=())
COMMON = [7, 7, 4, 1, 7, 7, 4, 1, 5, 5, 5, 5, 2, 0]
# 32 requests: some share beginnings, some are equal, lengths differ.
PROMPTS = [[*COMMON[: 3 * i % 14], i % V, i // V] for i in range(32)]
APART = [[1, 2], [3, 4, 4], [5], [6, 0, 1]]  # nothing in common, so that none waits for what another computes
N_NEW = [3 + 5 * i % 11 for i in range(32)]
DRAFTS = {"another model": OTHER, "itself": MODEL, "prompt look-up": "prompt-lookup"}
POOLS = {
    "a tight pool": {"n_blocks": 9},
    "a pool with blocks on the host": {"n_blocks": 12, "host_blocks": 6},
    "a wide pool": {"n_blocks": 200},
    "no prefix cache": {"n_blocks": 20, "prefix_cache": False},
}


def engine_of(model=MODEL, **changes):
    return Engine(model, **{"n_blocks": 64, "block_size": 4, "adaptive": False, **changes})


@pytest.fixture(scope="module")
def alone():
    """What each of the 32 writes alone, without a draft."""
    return [
        MODEL.generate([prompt], n, SAMPLED, Rng(seed))[0]
        for seed, (prompt, n) in enumerate(zip(PROMPTS, N_NEW, strict=True))
    ]


# --- the text that the seed says ---------------------------------------------------------------------------------


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("max_tokens_per_step", [8, 64, 512])
def test_with_a_seed_32_requests_with_drafts_write_what_they_write_alone(alone, draft, pool, max_tokens_per_step):
    engine = engine_of(draft=draft, max_tokens_per_step=max_tokens_per_step, **pool)
    texts = engine.generate(PROMPTS, N_NEW, SAMPLED, range(32))
    assert texts == alone, "a draft, or how the passes fell, has changed a text"
    assert engine.runner.control.n_drafted > 0, "nothing was drafted, so this shows nothing"


def test_a_draft_that_is_the_target_is_right_every_time():
    # Draft and target draw each token with the same numbers: from equal distributions, equal tokens.
    engine = engine_of(draft=MODEL, gamma=3)
    engine.generate(APART, 12, SAMPLED, range(4))
    assert engine.metrics.acceptance_rate == 1.0
    # The prompts give 1 token each; 8 of the other 11 come in two passes of 4, and the last 3 in one.
    assert engine.metrics.n_steps == 4


def test_times_that_switch_drafting_off_and_on_change_no_text(alone):
    # A clock that runs anyhow: what pays changes from pass to pass.
    ticks = iter(torch.rand(100_000, generator=torch.Generator().manual_seed(3)).cumsum(0).tolist())
    engine = engine_of(draft=OTHER, adaptive=True, n_blocks=30, clock=lambda: next(ticks))
    assert engine.generate(PROMPTS, N_NEW, SAMPLED, range(32)) == alone
    drafted = {record.n_drafted_tokens > 0 for record in engine.records if record.n_decode_tokens}
    assert drafted == {True, False}, "it was on all the time, or off, so this shows nothing"


# --- the distribution where there is no seed ---------------------------------------------------------------------


@pytest.mark.parametrize(("look_seconds", "is_on"), [(0.0, True), (5.0, False)], ids=["free", "dear"])
def test_looking_up_is_paid_for_too_and_is_given_up_where_it_costs_more_than_it_brings(look_seconds, is_on):
    now = itertools.count(step=0.5)  # every look at the clock takes half a second, and a look-up what is said
    spent = [0.0]
    engine = engine_of(adaptive=True, draft="prompt-lookup", gamma=2, clock=lambda: next(now) + spent[0])
    look_up = engine.runner.drafts.look_up

    def counted(request, n):
        spent[0] += look_seconds
        return look_up(request, n)

    engine.runner.drafts.look_up = counted
    right = SamplingParams(0.0, end_tokens=(), logit_bias={3: 100.0})  # always the same token: each guess is right
    engine.generate([[3] * 8], 50, right)
    assert engine.runner.control.is_on is is_on


@pytest.mark.parametrize("plain", [False, True], ids=["the fast engine", "the plain engine"])
@pytest.mark.parametrize("draft", [OTHER, "prompt-lookup"], ids=["another model", "prompt look-up"])
def test_without_a_seed_drafts_do_not_change_the_distribution(draft, plain):
    # Pairs of tokens of 2,000 requests against the model's own probabilities of pairs, top-k 3 to have few of them.
    # δ = 1e-6 a test: a right engine fails less than once in a million runs.
    sampling = SamplingParams(1.0, top_k=3, end_tokens=())
    prompt = [7, 4, 1, 7, 4]
    expected = pairs(prompt, sampling)
    n = 400 if plain else 2000
    engine = engine_of(draft=draft, plain=plain, n_blocks=300, max_running=64)
    counts = Counter(map(tuple, engine.generate([prompt] * n, 2, sampling)))
    assert set(counts) <= set(expected), "a pair of tokens that the model never writes"
    assert_sampled_from([counts[pair] for pair in expected], list(expected.values()), "pairs of tokens")


def pairs(prompt, sampling):
    """The probability of each pair of tokens behind a prompt, by the model alone."""
    chances = {}
    for one, p in enumerate(next_probs(prompt, sampling)):
        if p:
            chances |= {(one, two): p * q for two, q in enumerate(next_probs([*prompt, one], sampling)) if q}
    return chances


def next_probs(text, sampling):
    with torch.inference_mode():
        return sampling.probs(MODEL(torch.tensor([text]))[0, -1]).tolist()


# --- one pool ----------------------------------------------------------------------------------------------------


def test_the_draft_s_keys_and_values_are_in_the_bytes_of_the_pool():
    # Target: 3 layers, 2 heads of 6 numbers, keys and values, 8 bytes: 576 B a position. The draft has one layer less.
    draft = tiny_model(1, n_layers=2)
    engine = Engine(MODEL, cache_bytes=50 * 4 * (576 + 384), block_size=4, draft=draft)
    assert engine.scheduler.allocator.n_blocks == 50
    assert engine.cache.allocated_bytes + engine.runner.drafts.cache.allocated_bytes == 50 * 4 * (576 + 384)


def test_waiting_requests_hold_nothing_of_the_draft_s():
    engine = engine_of(draft=OTHER, n_blocks=6, max_running=2)
    for prompt in PROMPTS:
        engine.add_request(prompt, 2, SAMPLED)
    engine.step()
    assert all(request.table.blocks == [] and request.n_draft_computed == 0 for request in engine.scheduler.waiting)


def test_a_pass_of_the_draft_serves_all_requests(monkeypatch):
    # 4 requests of which each drafts 3 tokens a pass: 3 passes of the draft, not 12.
    engine = engine_of(draft=OTHER, gamma=3)
    for seed, prompt in enumerate(APART):
        engine.add_request(prompt, 20, SAMPLED, seed)
    engine.step()
    passes, forward = [], engine.runner.forward_segments
    engine.runner.drafts.forward = lambda *args: passes.append(len(args[2])) or forward(*args)
    engine.step()
    assert passes == [4, 4, 4]


def test_a_draft_goes_on_behind_what_was_kept():
    # A draft that is often wrong: 3 tokens a pass are drafted all the same, as long as 3 could be used.
    engine = engine_of(draft=OTHER, gamma=3, max_running=1)
    request = engine.request(engine.add_request(COMMON[:5], 20, SAMPLED, 0))
    engine.step()
    while engine.has_work:
        n_usable = min(3, request.n_left - 1)
        engine.step()
        n_drafted = engine.records[-1].n_drafted_tokens
        assert n_drafted == n_usable, f"{n_drafted} drafted and {n_usable} asked for: does it count what was refused?"
    assert engine.metrics.acceptance_rate < 0.9, "it is never wrong, so this shows nothing"


def test_the_draft_reads_what_the_prefix_cache_holds_only_once():
    engine = engine_of(draft=OTHER, gamma=2)
    prompt = COMMON[:13]
    engine.generate([prompt], 3, SAMPLED, [0])
    read, forward = [], engine.runner.forward_segments
    engine.runner.drafts.forward = lambda *args: read.append([len(s.tokens) for s in args[2]]) or forward(*args)
    engine.generate([prompt], 3, SAMPLED, [1])
    assert read[0] == [1], "3 blocks of 4 are cached for both models: one token of 13 is left"


def test_a_draft_with_a_shorter_context_stops_there_and_the_text_goes_on(alone):
    engine = engine_of(draft=tiny_model(1, max_positions=10))
    assert engine.generate(PROMPTS, N_NEW, SAMPLED, range(32)) == alone


def test_a_model_of_latent_attention_is_drafted_for_and_drafts():
    latent = tiny_latent_model()
    for model, draft in ((latent, OTHER), (MODEL, latent), (latent, tiny_latent_model(1))):
        right = [model.generate([prompt], 8, SAMPLED, Rng(i))[0] for i, prompt in enumerate(PROMPTS[:6])]
        assert engine_of(model, draft=draft, n_blocks=12).generate(PROMPTS[:6], 8, SAMPLED, range(6)) == right


# --- what goes wrong ---------------------------------------------------------------------------------------------


def poisoned_draft():
    """A draft whose logits are NaN as soon as token 4 is in the text."""
    draft = tiny_model(1, tie_embeddings=False)
    draft.embedding.weight[4] = float("nan")
    return draft


def test_a_draft_whose_logits_are_nan_is_given_up_and_no_text_changes(alone):
    engine = engine_of(draft=poisoned_draft(), n_blocks=14)
    assert engine.generate(PROMPTS, N_NEW, SAMPLED, range(32)) == alone
    assert engine.runner.control.n_drafted > 0, "requests without token 4 are drafted for"


def test_a_block_that_held_a_draft_s_nan_is_clean_for_the_next_request():
    # One request after the other in the same few blocks: the first one's draft leaves NaN, which the second's must not
    # see.
    engine = engine_of(draft=poisoned_draft(), n_blocks=4, prefix_cache=False, max_running=1)
    engine.generate([[1, 4, 4, 4, 4, 4]], 8, SAMPLED, [0])
    request = engine.request(engine.add_request([1, 2, 3], 12, SamplingParams(0.0, end_tokens=(4,))))
    while engine.has_work:
        engine.step()
    assert request.may_draft or 4 in request.new_tokens, "its draft met a NaN that is not its own"


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_a_pass_that_fails_has_used_no_random_numbers(alone, draft, monkeypatch):
    engine = engine_of(draft=draft, n_blocks=40)
    ids = [engine.add_request(prompt, n, SAMPLED, i) for i, (prompt, n) in enumerate(zip(PROMPTS, N_NEW, strict=True))]
    texts = {i: [] for i in ids}
    outcomes, calls = engine.runner.outcomes, []

    def fail_every_third(*args):
        calls.append(1)
        done = outcomes(*args)
        if len(calls) % 3 == 0:
            raise RuntimeError("after all tokens have been drawn")
        return done

    monkeypatch.setattr(engine.runner, "outcomes", fail_every_third)
    while engine.has_work:
        try:
            for output in engine.step():
                texts[output.id] += output.tokens
        except RuntimeError:
            continue
    assert [texts[i] for i in ids] == alone
