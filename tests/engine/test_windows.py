"""Tests an engine whose layers have windows: the texts of `HybridKVCache`, and blocks given back behind the windows."""

import pytest
import torch
from refusal import assert_refuses
from tiny_models import tiny_latent_model, tiny_model

from nanolm.engine import Engine
from nanolm.sampling import Rng, SamplingParams, sample_next
from nanolm.window import HybridKVCache, blocks_for_request

MODEL = tiny_model(n_layers=4)
V = MODEL.config.vocab_size
SAMPLED = SamplingParams(1.0, end_tokens=())
COMMON = [7, 7, 4, 1, 7, 7, 4, 1, 5, 5, 5, 5, 2, 0]
PROMPTS = [[*COMMON[: 3 * i % 14], i % V, i // V] for i in range(12)]
WINDOWS = {
    "two see all": [None, 5, None, 5],
    "one sees all": [5, 5, None, 5],
    "none does": [3, 3, 6, 6],
    "all do": [None] * 4,
}


@torch.inference_mode()
def alone(prompt, n_new, windows, seed):
    """What one request writes with a HybridKVCache and nobody beside it."""
    cache, rng, text = HybridKVCache(MODEL.config, windows, 1, 64, torch.float64), Rng(seed), list(prompt)
    for _ in range(n_new):
        logits = MODEL(torch.tensor([text[cache.length :]]), cache, 1)[:, -1]
        cache.advance(len(text) - cache.length)
        text += sample_next(logits, SAMPLED, rng).tolist()
    return text[len(prompt) :]


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("draft", [None, "prompt-lookup"])
@pytest.mark.parametrize(
    "sizes",
    [{"n_blocks": 200}, {"n_blocks": 200, "max_tokens_per_step": 3}, {"n_blocks": 28}, {"n_blocks": 28, "plain": True}],
    ids=["wide", "chunks", "tight", "tight, plain"],
)
def test_requests_write_what_they_write_alone_with_a_cache_of_windows(windows, draft, sizes):
    engine = Engine(MODEL, block_size=4, windows=windows, draft=draft, adaptive=False, **sizes)
    right = [alone(prompt, 9, windows, seed) for seed, prompt in enumerate(PROMPTS)]
    assert engine.generate(PROMPTS, 9, SAMPLED, range(12)) == right
    assert engine.scheduler.allocator.n_used == 0, "blocks are held after all have ended"


def test_answers_of_one_prompt_share_its_blocks():
    windows = WINDOWS["one sees all"]
    engine = Engine(MODEL, block_size=4, n_blocks=200, windows=windows)
    ids = engine.add_group(PROMPTS[4], 9, SAMPLED, seeds=range(4))
    texts = {i: [] for i in ids}
    while engine.has_work:
        for output in engine.step():
            texts[output.id] += output.tokens
    assert [texts[i] for i in ids] == [alone(PROMPTS[4], 9, windows, seed) for seed in range(4)]


def test_a_long_text_holds_no_more_than_its_windows_ask_for():
    # 3 of 4 layers see 5 positions, one sees all: 4 groups of one layer. A text of 56 in blocks of 4, at most 3 tokens
    # a pass: 14 blocks for the one; for each of the others the 7 positions in sight, which lie in 3 blocks at most.
    windows = WINDOWS["one sees all"]
    assert blocks_for_request(56, windows, 4, 3) == 14 + 3 * 3
    engine = Engine(MODEL, block_size=4, n_blocks=23, windows=windows, max_tokens_per_step=3, reserve=0.0)
    engine.add_request([1 + i % 9 for i in range(40)], 17, SAMPLED, 0)
    used = []
    while engine.has_work:
        engine.step()
        used.append(engine.scheduler.allocator.n_used)
    assert max(used) <= 23
    assert max(record.n_blocks_used for record in engine.records) <= 23
    whole = Engine(MODEL, block_size=4, n_blocks=14)
    assert whole.cache.allocated_bytes == 14 * 4 * whole.cache.block_bytes // 4
    # In bytes: 23 blocks of one layer against 14 of four.
    assert engine.cache.allocated_bytes / whole.cache.allocated_bytes == 23 / 56


def test_more_requests_fit_into_the_same_bytes():
    # Texts of 47 positions in blocks of 4: 12 blocks of all layers, of which 24 are there: two texts to the end. With
    # windows a text holds 12 of one layer and at most 4 of each of three, the 12 positions in sight of a pass of 8: 24,
    # of which 96 are there.
    ran = {}
    for name, windows in (("windows", WINDOWS["one sees all"]), ("whole", None)):
        sizes = {"block_size": 4, "cache_bytes": 24 * 4 * 4 * 192, "max_tokens_per_step": 8}
        engine = Engine(MODEL, windows=windows, prefix_cache=False, reserve=0.0, max_overtakes=0, **sizes)
        for i in range(12):
            engine.add_request([i % V] * 24, 24, SAMPLED, i)
        while engine.has_work:
            engine.step()
        ran[name] = engine.metrics.mean_running, engine.metrics.n_preemptions
    assert ran["windows"][0] > 1.3 * ran["whole"][0] and ran["windows"][1] < ran["whole"][1], ran


@pytest.mark.parametrize(
    ("says", "model", "change"),
    [
        ("windows", MODEL, {"windows": []}),
        ("windows", MODEL, {"windows": [None, 0, None, 3]}),
        ("layers", MODEL, {"windows": [None, 3]}),
        ("draft", MODEL, {"windows": [None, 3, None, 3], "draft": MODEL}),
        ("windows", tiny_latent_model(), {"windows": [None, 3, 3]}),
    ],
)
def test_windows_that_an_engine_cannot_serve_are_refused(says, model, change):
    assert_refuses(says, lambda: Engine(model, n_blocks=8, **change))
