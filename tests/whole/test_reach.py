"""What a student writes is what the engine runs: six recorded requests in named configurations, every target counted.

The rest are studies, which no engine runs; each is listed here with the reason. A target that neither runs nor stands
in the list fails the test, and so does one that stands there and runs.
"""

from functools import cache

import pytest
import torch
from reach import code_of, run_by

from course.registry import homes, registry
from nanolm.checkpoint import load
from nanolm.engine import Engine
from nanolm.mla import LatentLM
from nanolm.model import quantize_model
from nanolm.paging import route_by_prefix
from nanolm.sampling import SamplingParams
from nanolm.speculative import PromptLookupDraft, speculate
from nanolm.workload import load_trace

N_TOKENS = 8
GREEDY, SAMPLED = SamplingParams(0.0, end_tokens=()), SamplingParams(0.9, top_k=30, top_p=0.9, end_tokens=())

# Why no engine runs these.
STUDIES = {
    "a decoder in NumPy, to follow with a pencil": ("TinyDecoder.",),
    "simulators of whole servers, without a model": (
        "ServingRun.",
        "simulate_static_batching",
        "simulate_continuous_batching",
    ),
    "float32 sums, addition by addition": ("float32_sum", "greedy_pick_with_summation_order"),
    "trees of drafted tokens: the engine drafts lines, and its attention has no mask for a tree": ("verify_tree",),
    "arithmetic of bytes, seconds and dollars, for planning": (
        "budget/",
        "score_matrix_bytes",
        "bits_per_weight",
        "acceptance_rate",
        "speculative_speedup",
        "best_gamma",
        "reusable_prefix_tokens",  # what a provider does not charge
    ),
    "rounding with calibration, done once before a model is served": (
        "quantization/gptq_rounding",
        "quantization/awq_rounding",
    ),
    "the tiles of flash on a CPU: there torch's own attention is the faster, on a GPU the kernel": (
        "online_softmax",
        "merge",
        "flash_attention",
        "split_k_attention",
    ),
    "keys shared out among processes: this engine runs in one": ("merge_across",),
    "a tree of runs, as SGLang keeps it: this engine's tree has a node a block": ("CompressedRadixCache.",),
    "windows in a ring, for one text: an engine gives back the blocks behind them": ("WindowKVCache.",),
}
# Commit f79872d, whose engine had a forward pass of its own, counted the same way over its 104 targets: by the default
# engine, sampled, and by nine configurations together (draft, look-up, int8, a small pool, 8 and 4 bits, a mixture).
BEFORE = {"default": 8, "sampled": 12, "all": 33}


@cache
def model_of(name):
    return load(name)[0]


@cache
def quantized(bits, **options):
    return quantize_model(load("target")[0], bits, kernels=False, **options)


@cache
def latent_of(seed):
    torch.manual_seed(seed)
    return LatentLM().eval().requires_grad_(False)


def requests(vocab_size=1024):
    """Six recorded prompts, of every length from short to long."""
    trace = sorted(load_trace(), key=lambda arrival: arrival.n_prompt_tokens)[:: len(load_trace()) // 6][:6]
    return [[token % vocab_size for token in arrival.prompt[:160]] for arrival in trace]


def serve(model=None, sampling=GREEDY, with_seeds=True, n_tokens=N_TOKENS, **options):
    """Serve the six with an engine, the first of them forked once it runs, where there is room."""
    model = model_of("target") if model is None else model
    engine = Engine(model, **{"adaptive": False, **options})
    prompts = requests(model.config.vocab_size)
    seeds = range(len(prompts)) if with_seeds else [None] * len(prompts)
    ids = [engine.add_request(prompt, n_tokens, sampling, seed) for prompt, seed in zip(prompts, seeds, strict=True)]
    engine.step()
    if len(engine.scheduler.running) < engine.scheduler.max_running:
        engine.fork(ids[0], seed=99)
    while engine.has_work:
        engine.step()


def serve_with_two_replicas():
    engines = [Engine(model_of("target")) for _ in range(2)]
    for prompt in requests():
        engines[route_by_prefix(prompt, [engine.scheduler for engine in engines])].add_request(prompt, 2)
    while any(engine.has_work for engine in engines):
        for engine in engines:
            engine.step()


def one_at_a_time(model=None, **options):
    model = model_of("target") if model is None else model
    for prompt in requests(model.config.vocab_size):
        model.generate(prompt, N_TOKENS, SAMPLED, **options)


def one_at_a_time_speculating():
    for prompt in requests():
        speculate(model_of("target"), model_of("draft"), prompt, N_TOKENS, sampling=SAMPLED)


def look_up_without_an_index():
    speculate(model_of("target"), PromptLookupDraft(1024, fast=False), requests()[0], N_TOKENS)


def quantize_and_serve(bits, **options):
    """Quantizing is a part of serving a quantized model."""
    serve(quantized(bits, **options), plain=True)


SMALL = {"n_blocks": 48, "block_size": 4, "host_blocks": 8, "max_tokens_per_step": 64, "reserve": 0.0}
DRAFT = {"sampling": SAMPLED, "with_seeds": False}  # with a seed a draft is right or wrong, without one it is verified
CONFIGURATIONS = {
    "default": lambda: serve(),
    "default, sampled": lambda: serve(sampling=SAMPLED),
    "plain, sampled": lambda: serve(sampling=SAMPLED, plain=True),
    "draft model, sampled": lambda: serve(draft=model_of("draft"), **DRAFT),
    "draft model where it pays": lambda: serve(draft=model_of("draft"), adaptive=True, n_tokens=40),
    "plain, draft model, sampled": lambda: serve(draft=model_of("draft"), plain=True, **DRAFT),
    "plain, prompt-lookup": lambda: serve(draft="prompt-lookup", plain=True),
    "int8 cache, draft model": lambda: serve(cache_kind="int8", draft=model_of("draft")),
    "float8 cache": lambda: serve(cache_kind="float8"),
    "small pool with host blocks": lambda: serve(**SMALL),
    "plain, 8-bit weights": lambda: quantize_and_serve(8),
    "plain, 4-bit weights": lambda: quantize_and_serve(4, group_size=32),
    "plain, 8-bit weights, a scale a matrix": lambda: quantize_and_serve(8, per_tensor=True),
    "plain, mixture of experts": lambda: serve(model_of("mixture"), plain=True),
    "plain, windows": lambda: serve(windows=[None, 64, 64, 64] * 3, plain=True),
    "latent attention, latent draft": lambda: serve(latent_of(0), draft=latent_of(1)),
    "two replicas, routed by prefix": serve_with_two_replicas,
    "no engine: one request at a time": one_at_a_time,
    "no engine: an int8 cache": lambda: one_at_a_time(cache_kind="int8"),
    "no engine: latent attention": lambda: one_at_a_time(latent_of(0)),
    "no engine: one at a time, speculating": one_at_a_time_speculating,
    "no engine: look-up without an index": look_up_without_an_index,
}


def targets():
    return [name for exercise in registry() for name in exercise.targets]


def why_a_study(name):
    """The reason why no engine runs a target; None for one that has to run."""
    file = homes()[name].replace(".", "/")
    for reason, names in STUDIES.items():
        if any(name == each or (each.endswith(".") and name.startswith(each)) for each in names):
            return reason
        if any("/" in each and file.startswith(each) for each in names):
            return reason
    return None


def table(reached):
    """The count as lines: configuration, targets run, targets run by none above it."""
    lines, seen = [f"{'configuration':42} {'targets run':>11} {'new':>4}"], set()
    for name, found in reached.items():
        lines.append(f"{name:42} {len(found):11} {len(found - seen):4}")
        seen |= found
    lines += [f"{'all of them together':42} {len(seen):11}   of {len(targets())}"]
    lines += [f"{f'before, {name}':42} {count:11}" + "   of 104" * (name == "all") for name, count in BEFORE.items()]
    for reason in STUDIES:
        lines.append(f"{sum(why_a_study(name) == reason for name in targets()):4} run by no engine: {reason}")
    return "\n".join(lines)


def test_the_engine_runs_every_exercise_but_the_studies(record_property):
    reached = {name: run_by(work, targets()) for name, work in CONFIGURATIONS.items()}
    record_property("table", table(reached))
    run = set().union(*reached.values())
    missing = [name for name in targets() if name not in run and why_a_study(name) is None]
    assert not missing, f"no configuration runs {', '.join(missing)}: wire them, or say in STUDIES why not"
    served = [name for name in targets() if name in run and why_a_study(name) is not None]
    assert not served, f"{', '.join(served)} stand among the studies, and an engine runs them"


def test_the_default_engine_runs_the_forward_pass_that_week_2_teaches():
    run = run_by(CONFIGURATIONS["default"], targets())
    taught = {"apply_rope", "KVCache.attend", "Attention.forward", "BlockTable.slot_mapping"}
    assert taught <= run, f"a forward pass of its own again? {', '.join(sorted(taught - run))} did not run"


@pytest.mark.parametrize("name", ["KVCache.offset", "NanoLM.stream", "ServingRun.utilisation"])
def test_a_function_that_is_not_entered_is_not_counted(name):
    assert run_by(lambda: None, [name]) == set() and code_of(name).co_name == name.rpartition(".")[2]
