"""With 8- or 4-bit weights a request has the same logits, to the last bit, alone and beside others, in float32.

Products with codes and attention sum in one order (`kernels.products`, `kernels.cpu_attention`), everything else works
on a position by itself. Rounded texts would hide a last bit until two tokens are nearly equal, so log-probabilities are
compared, as they come out.
"""

from functools import cache

import pytest

import nanolm
from nanolm.engine import Engine
from nanolm.kernels.compiled import Library, load_library
from nanolm.model import quantize_model
from nanolm.sampling import SamplingParams
from nanolm.workload import load_trace

pytestmark = pytest.mark.skipif(not isinstance(load_library(), Library), reason=f"none here: {load_library()}")

PROMPTS = [arrival.prompt for arrival in load_trace() if arrival.prompt][:10]
RULES = SamplingParams(temperature=0.0, end_tokens=(), logprobs=1)
N_NEW = 12


@cache
def model(bits):
    return quantize_model(nanolm.load("target")[0], bits, head=True)


def written(prompts, bits, **options):
    """Each request's tokens with their log-probabilities, all requests in one engine."""
    engine = Engine(model(bits), **options)
    ids = [engine.add_request(prompt, N_NEW, RULES) for prompt in prompts]
    found = {request: [] for request in ids}
    while engine.has_work:
        for output in engine.step():
            found[output.id] += zip(output.tokens, output.logprobs or [], strict=True)
    return [found[request] for request in ids]


@cache
def alone(bits):
    return [written([prompt], bits)[0] for prompt in PROMPTS]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_tokens_per_step": 24},
        {"n_blocks": 40, "prefix_cache": False},
        {"draft": "prompt-lookup", "adaptive": False},
    ],
    ids=["all at once", "prompts in chunks", "a pool too small for all", "with drafts"],
)
@pytest.mark.parametrize("bits", [8, 4])
def test_a_request_has_the_bits_that_it_has_alone(bits, options):
    assert all(len(text) == N_NEW for text in alone(bits))
    assert written(PROMPTS, bits, **options) == alone(bits)
