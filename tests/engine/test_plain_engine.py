"""The plain engine, made of the functions that the lessons teach, against the fast one: token by token the same.

In float64, where what differs between the two (whose attention is computed beside whose, and in which order sums are
taken) is far too small to change a token.
"""

import pytest
import torch
from by_hand import random
from poison import draft_poison, poisoned_model
from refusal import assert_refuses
from tiny_models import tiny_latent_model, tiny_model
from torch import nn

from nanolm.engine import Engine, Request, TokenChoice, plain_model, plain_runner
from nanolm.model import GroupedMoE, quantize_model
from nanolm.quantization import Int4Linear, QuantizedLinear
from nanolm.sampling import Rng, SamplingParams, sample_next
from nanolm.varlen import varlen_batch

MODEL, OTHER = tiny_model(), tiny_model(1)
V = MODEL.config.vocab_size
COMMON = [7, 7, 4, 1, 7, 7, 4, 1, 5, 5, 5, 5, 2, 0]  # beginnings that prompts share, with repeats to look up
PROMPTS = [COMMON[:n] for n in (14, 3, 9, 1, 12, 9)]
SAMPLINGS = {
    "greedy": SamplingParams(0.0, end_tokens=(3,)),
    "sampled": SamplingParams(1.0, end_tokens=()),
    "top-k and top-p": SamplingParams(1.3, top_k=6, top_p=0.9, end_tokens=(3,)),
}
SIZES = {
    "all at once": {},
    "prompts in chunks": {"max_tokens_per_step": 5},
    "a small pool": {"n_blocks": 9, "prefix_cache": False},
    "a prefix cache with blocks on the host": {"n_blocks": 9, "host_blocks": 6},
}
DRAFTS = {"no draft": None, "prompt-lookup": "prompt-lookup", "itself": MODEL, "another model": OTHER}


def engines(model=MODEL, **changes):
    """The fast engine and the plain one, else alike."""
    options = {"n_blocks": 64, "block_size": 4, "adaptive": False, **changes}
    return Engine(model, **options), Engine(model, plain=True, **options)


def passes_of(engine):
    """What each pass ran, without its times."""
    return [(r.n_prefill_tokens, r.n_decode_tokens, r.n_new_tokens, r.n_preempted) for r in engine.records]


def assert_same(model, sampling=SAMPLINGS["greedy"], n_new=10, **changes):
    """Let both serve all prompts and write the same texts in the same passes; return the plain one."""
    fast, plain = engines(model, **changes)
    seeds = range(len(PROMPTS))
    assert plain.generate(PROMPTS, n_new, sampling, seeds) == fast.generate(PROMPTS, n_new, sampling, seeds)
    assert passes_of(plain) == passes_of(fast), "the texts are the same, the passes are not"
    return plain


# --- the same tokens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_the_plain_engine_writes_the_tokens_of_the_fast_one(sampling, sizes, draft):
    assert_same(MODEL, sampling, draft=draft, **sizes)


def test_the_small_pools_of_these_tests_preempt_and_evict():
    assert assert_same(MODEL, **SIZES["a small pool"]).metrics.n_preemptions > 0
    prefix = assert_same(MODEL, **SIZES["a prefix cache with blocks on the host"]).scheduler.prefix
    assert prefix.statistics.hit_rate > 0 and prefix.host.n_free < 6, "no block was ever kept on the host"


@pytest.mark.parametrize("kind", ["int8", "float8"])
@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_the_plain_engine_writes_the_same_tokens_from_a_quantized_cache(kind, draft):
    for sizes in SIZES.values():
        assert_same(MODEL, SAMPLINGS["top-k and top-p"], cache_kind=kind, draft=draft, **sizes)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("draft", ["no draft", "prompt-lookup", "itself"])
@pytest.mark.parametrize("make", [tiny_latent_model, lambda: tiny_model(n_experts=4, experts_per_token=2)])
def test_the_plain_engine_writes_the_same_tokens_with_latent_attention_and_with_a_mixture(make, draft, sizes):
    model = make()
    draft = model if draft == "itself" else DRAFTS[draft]
    for sampling in (SAMPLINGS["greedy"], SAMPLINGS["top-k and top-p"]):
        assert_same(model, sampling, draft=draft, **sizes)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("mixture", [{}, {"n_experts": 4, "experts_per_token": 2}])
def test_the_plain_engine_writes_the_same_tokens_with_quantized_weights(bits, mixture):
    model = quantize_model(tiny_model(**mixture), bits, head=True, kernels=False)
    for sampling in SAMPLINGS.values():
        assert_same(model, sampling, draft="prompt-lookup")


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_a_fork_of_the_plain_engine_writes_on_as_one_of_the_fast_one(draft):
    texts = []
    for engine in engines(draft=draft):
        original = engine.request(engine.add_request(COMMON[:9], 12, SAMPLINGS["sampled"], seed=1))
        for _ in range(2):
            engine.step()
        twin = engine.request(engine.fork(original.id, seed=9))
        while engine.has_work:
            engine.step()
        texts.append((original.new_tokens, twin.new_tokens))
    assert texts[0] == texts[1]
    assert texts[0][0] != texts[0][1], "the fork has no rng of its own"


# --- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draft", [None, "prompt-lookup"])
@pytest.mark.parametrize("sizes", [{"n_blocks": 8}, {"n_blocks": 8, "max_tokens_per_step": 3}])
def test_logits_that_are_nan_end_a_request_of_the_plain_engine_as_of_the_fast_one(draft, sizes):
    ends = []
    for engine in engines(poisoned_model(), draft=draft, **sizes):
        prompts = [[10], [1, 2, 3], [1, 2, 10, 4, 5, 6, 7, 8, 9, 1], COMMON[:9]]
        requests = [
            engine.request(engine.add_request(prompt, 6, SamplingParams(0.0, end_tokens=(10,)))) for prompt in prompts
        ]
        while engine.has_work:
            engine.step()
        ends.append([(request.finish_reason, request.error, request.new_tokens) for request in requests])
        assert engine.scheduler.allocator.n_used == engine.scheduler.prefix.n_blocks, "blocks are held after the end"
    assert ends[1] == ends[0]
    assert [reason == "error" for reason, *_ in ends[1]] == [True, False, True, False], "one request's NaN is its own"
    assert all("NaN" in error for reason, error, _ in ends[1] if reason == "error")


def test_a_drafted_token_whose_logits_are_nan_is_dropped_by_the_plain_engine_too():
    model, texts = poisoned_model(), []
    for engine in engines(model, draft="prompt-lookup"):
        draft_poison(engine)
        request = engine.request(engine.add_request([1, 2, 3], 6, SamplingParams(0.0, end_tokens=(10,))))
        while engine.has_work:
            engine.step()
        assert (request.n_preemptions, request.may_draft) == (1, False), "no draft was refused for its logits"
        texts.append(request.new_tokens)
    right = model.generate([1, 2, 3], 6, SamplingParams(0.0, end_tokens=(10,)))
    assert texts == [right, right], "the drafted token was never part of the text"


def test_a_pass_of_the_plain_engine_that_raises_can_be_repeated(monkeypatch):
    fast, plain = engines()
    real, calls = plain.runner.forward_segments, []

    def sometimes(*arguments, **named):
        calls.append(1)
        if len(calls) % 7 == 3:  # in the middle of a pass: some requests have run, others have not
            raise RuntimeError("out of memory")
        return real(*arguments, **named)

    monkeypatch.setattr(plain.runner, "forward_segments", sometimes)
    requests = [plain.request(plain.add_request(prompt, 10, SAMPLINGS["greedy"])) for prompt in PROMPTS]
    n_failed = 0
    while plain.has_work:
        try:
            plain.step()
        except RuntimeError:
            n_failed += 1
    assert n_failed > 2
    assert [request.new_tokens for request in requests] == fast.generate(PROMPTS, 10, SAMPLINGS["greedy"])


# --- plain is plain ----------------------------------------------------------------------------------------------


def test_the_plain_engine_attends_request_by_request_and_the_fast_one_together(monkeypatch):
    rows = []

    class Counted(varlen_batch.PagedRows):
        def __init__(self, pool, segments, fast=None, window=None):
            rows.append((len(segments), fast is not None))
            super().__init__(pool, segments, fast, window)

    monkeypatch.setattr(varlen_batch, "PagedRows", Counted)
    fast, plain = engines()
    plain.generate(PROMPTS, 4, SamplingParams(0.0, end_tokens=()))
    assert set(rows) == {(1, False)}, "plain: each request by itself, its blocks gathered first"
    rows.clear()
    fast.generate(PROMPTS, 4, SamplingParams(0.0, end_tokens=()))
    assert max(rows) == (6, True), "fast: the six that decode together, by a kernel where there is one"


@pytest.mark.parametrize(("draft", "name"), [(None, "sample_next"), (MODEL, "speculative_round")])
def test_the_plain_engine_chooses_by_the_functions_of_the_lessons(monkeypatch, draft, name):
    called, real = [], getattr(plain_runner, name)
    monkeypatch.setattr(plain_runner, name, lambda *arguments: called.append(1) or real(*arguments))
    plain = engines(draft=draft)[1]
    plain.generate([[1, 2, 3]], 6, SamplingParams(0.0, end_tokens=()))
    assert called, f"{name} was never asked"


def test_a_plain_model_shares_the_weights_and_leaves_the_caller_s_model_fast():
    for model in (
        tiny_model(tie_embeddings=True),
        tiny_latent_model(),
        tiny_model(n_experts=4, experts_per_token=2),
        quantize_model(tiny_model(), 8),
    ):
        plain = plain_model(model)
        ours, theirs = (dict([*each.named_parameters(), *each.named_buffers()]) for each in (plain, model))
        assert ours.keys() == theirs.keys()
        assert all(ours[name] is theirs[name] for name in ours), "a second copy of weights takes as much memory again"
        switches = [
            (a.fast, b.fast) for a, b in zip(plain.modules(), model.modules(), strict=True) if hasattr(b, "fast")
        ]
        assert set(switches) == {(False, True)}, "the plain one is not fast; the caller's still is"


def test_a_plain_model_s_weights_are_the_caller_s_when_they_change():
    model = tiny_model()
    plain, tokens = plain_model(model), torch.tensor([[1, 2, 3]])
    before = plain(tokens)
    model.layers[0].attention.out.weight.mul_(2.0)
    assert not torch.allclose(plain(tokens), before)
    assert torch.allclose(plain(tokens), model(tokens), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [GroupedMoE, QuantizedLinear])
def test_a_plain_model_turns_off_every_kernel(kind):
    model = quantize_model(tiny_model(), 8) if kind is QuantizedLinear else tiny_model(n_experts=4, experts_per_token=2)
    found = [module for module in plain_model(model).modules() if isinstance(module, kind)]
    assert found and not any(module.fast for module in found)


def with_a_locked_layer():
    """A model with a layer in the 4-bit kernel's layout, which not every processor can make: the layer is empty."""
    model, layer = tiny_model(), Int4Linear.__new__(Int4Linear)
    nn.Module.__init__(layer)
    model.set_submodule("layers.1.attention.out", layer)
    return model


@pytest.mark.parametrize("role", ["model", "draft"])
def test_a_plain_engine_of_layers_that_only_a_kernel_can_read_is_refused(role):
    model, draft = (with_a_locked_layer(), None) if role == "model" else (MODEL, with_a_locked_layer())
    with pytest.raises(ValueError, match=r"layers\.1\.attention\.out") as refused:
        Engine(model, draft=draft, n_blocks=8, plain=True)
    assert "kernels=False" in str(refused.value), "the message has to say what to do"


@pytest.mark.parametrize(
    ("name", "model", "change"),
    [
        ("cache_kind", tiny_latent_model(), {"cache_kind": "int8"}),
        ("draft", MODEL, {"draft": "ouija"}),
        ("gamma", MODEL, {"draft": MODEL, "gamma": 0}),
    ],
)
def test_a_plain_engine_refuses_what_the_fast_one_refuses(name, model, change):
    assert_refuses(name, lambda: Engine(model, plain=True, **change))


# --- the fast one's choice of tokens -----------------------------------------------------------------------------

MIXED = [
    SamplingParams(0.0),
    SamplingParams(1.0),
    SamplingParams(0.0),
    SamplingParams(0.7, top_k=4),
    SamplingParams(1.5, top_p=0.8),
    SamplingParams(1.0),
    SamplingParams(1.5, top_p=0.8),
]


def together(rows, logits):
    """The token of each request, by the row that is its."""
    choice = TokenChoice()
    for request, row in rows.items():
        choice.add(request, 1, logits[row, None])
    return {request: new[0] for request, _, new, *_ in choice.made()}


def test_tokens_chosen_together_are_those_that_sample_next_chooses_row_by_row():
    # Every second row is somebody's, as where a chunk's or a draft's lie between; the rules are mixed.
    requests = [Request([1], sampling=sampling, rng=Rng(seed)) for seed, sampling in enumerate(MIXED)]
    alone = [Rng(seed) for seed in range(len(MIXED))]
    rows = {request: 2 * i for i, request in enumerate(requests)}
    for turn in range(20):  # as often as it takes for each pair of rngs to go apart, if they do
        logits = random(2 * len(MIXED), V, seed=turn)
        chosen = together(rows, logits)
        assert set(chosen) == set(requests), "a token for each request, and for no other"
        for request, rng in zip(requests, alone, strict=True):
            right = sample_next(logits[rows[request], None], request.sampling, rng).tolist()
            assert [chosen[request]] == right, f"turn {turn}, {request.sampling}: another's row, rules or rng?"
            request.tokens += right


def test_equal_logits_choose_the_lowest_id_together_as_alone():
    request, logits = Request([1], sampling=SamplingParams(0.0), rng=Rng(0)), torch.tensor([[0.0, 2.0, 1.0, 2.0]])
    assert together({request: 0}, logits) == {request: 1}


def test_choosing_for_nobody_chooses_nothing():
    assert TokenChoice().made() == []
