"""Whatever is asked, nobody else notices: a request is refused by a ValueError at the door, or served."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from tiny_models import tiny_latent_model, tiny_model

from nanolm.engine import Engine
from nanolm.sampling import Rng, SamplingParams
from nanolm.speculative import speculate

MODEL = tiny_model()
SAMPLED = SamplingParams(1.0, end_tokens=())
PROMPT, SEED = [5, 4, 3], 9


class NoOrder:
    """An object that cannot be compared, and raises when it is."""

    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("compared")


VALUES = [
    *(
        None,
        True,
        -1,
        0,
        3,
        10**30,
        10**400,
        2.0,
        2.5,
        1e308,
        1e-300,
        math.nan,
        math.inf,
        -math.inf,
        1j,
        Fraction(1, 2),
    ),
    *("", "1", b"1", [], [2], [None], [2.5], [10**30], {}, {1: 2}, {2.5: 1}, {1: "x"}, {1, 2}, (1, 2), range(3)),
    *(
        np.int64(2),
        np.float32(0.5),
        np.array([1, 2]),
        torch.tensor(2),
        torch.tensor([1, 2]),
        object(),
        NoOrder(),
        print,
    ),
]
FIELDS = (
    *("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("logit_bias", "stop_token_ids", "end_tokens", "min_new_tokens", "logprobs"),
)


def field_of_the_rules(name):
    def ask(engine, value):
        engine.add_request([1, 2, 3], 4, SamplingParams(**{"temperature": 1.0, "end_tokens": (), name: value}), 1)

    return ask


WAYS = {name: field_of_the_rules(name) for name in FIELDS} | {
    "prompt": lambda engine, value: engine.add_request(value, 4, SAMPLED, 1),
    "a token of the prompt": lambda engine, value: engine.add_request([1, value, 2], 4, SAMPLED, 1),
    "max_new_tokens": lambda engine, value: engine.add_request([1, 2], value, SAMPLED, 1),
    "sampling": lambda engine, value: engine.add_request([1, 2], 4, value, 1),
    "seed": lambda engine, value: engine.add_request([1, 2], 4, SAMPLED, value),
    "stop": lambda engine, value: engine.add_request([1, 2], 4, SAMPLED, 1, value),
    "an end token": lambda engine, value: engine.add_request([1, 2], 4, SamplingParams(1.0, end_tokens=(value,)), 1),
    "a bias": lambda engine, value: engine.add_request([1, 2], 4, SamplingParams(1.0, logit_bias=[(1, value)]), 1),
    "a token with a bias": lambda engine, value: engine.add_request(
        [1, 2], 4, SamplingParams(1.0, logit_bias=[(value, 1.0)]), 1
    ),
    "seeds": lambda engine, value: engine.add_group([1, 2], 4, SAMPLED, value),
    "one of the seeds": lambda engine, value: engine.add_group([1, 2], 4, SAMPLED, [1, value]),
    "stops": lambda engine, value: engine.add_group([1, 2], 4, SAMPLED, [1, 2], value),
    "what a stop condition returns": lambda engine, value: engine.add_request([1, 2], 4, SAMPLED, 1, lambda new: value),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_bad_request_is_refused_at_the_door_or_costs_nobody_else_a_token(way):
    alone = MODEL.generate([PROMPT], 6, SAMPLED, Rng(SEED))[0]
    for value in VALUES:
        engine = Engine(MODEL, n_blocks=64, block_size=4)
        number, text = engine.add_request(PROMPT, 6, SAMPLED, SEED), []
        try:
            WAYS[way](engine, value)
        except ValueError as refusal:
            assert str(refusal), "a refusal says something"
        for _ in range(40):
            text += [token for output in engine.step() if output.id == number for token in output.tokens]
        assert not engine.has_work, f"{way} = {value!r}: it never ends"
        assert text == alone, f"{way} = {value!r}"


NOT_WHOLE = [value for value in VALUES if not isinstance(value, int | np.int64) or isinstance(value, bool)]


@pytest.mark.parametrize(
    "way",
    [
        lambda n: MODEL.generate([PROMPT], n),
        lambda n: list(MODEL.stream([PROMPT], n)),
        lambda n: speculate(MODEL, MODEL, PROMPT, n),
        lambda n: Engine(MODEL, n_blocks=64).add_request(PROMPT, n),
    ],
    ids=["generate", "stream", "speculate", "an engine"],
)
def test_the_number_of_new_tokens_is_whole_wherever_it_is_given(way):
    for n in [-1, *NOT_WHOLE]:
        with pytest.raises(ValueError, match=r"max_new_tokens is .*; it must be a whole number, [01] or more"):
            way(n)


SIZES = ("n_blocks", "block_size", "cache_bytes", "max_running", "max_tokens_per_step", "gamma")


@pytest.mark.parametrize("name", [*SIZES, "host_blocks", "max_overtakes", "reserve", "cache_kind"])
def test_an_engine_s_sizes_are_refused_by_name(name):
    wrong = [value for value in NOT_WHOLE if value is not None or name != "n_blocks"]  # without it, of cache_bytes
    if name == "reserve":  # the share of the blocks
        wrong = [1, 2.5, *(value for value in wrong if not isinstance(value, float | np.float32 | Fraction))]
    for value in [-1, *wrong]:
        with pytest.raises(ValueError, match=f"{name} is .*; it must be "):
            Engine(MODEL, **{"n_blocks": 64, "block_size": 4, name: value})


@pytest.mark.parametrize("without", [{"prefix_cache": False}, {"windows": [4] * MODEL.config.n_layers}])
def test_blocks_in_host_memory_need_a_prefix_cache(without):
    with pytest.raises(ValueError, match="host_blocks is 4; without a prefix cache it must be 0"):
        Engine(MODEL, n_blocks=64, host_blocks=4, **without)


@pytest.mark.parametrize("n_blocks", [10**14, 10**30], ids=["more than any machine has", "more than torch can count"])
@pytest.mark.parametrize("model", [MODEL, tiny_latent_model()], ids=["plain", "latent"])
def test_a_pool_that_no_memory_holds_is_refused_with_its_size(model, n_blocks):
    with pytest.raises(ValueError, match=r"n_blocks is 10+; a layer's keys and values would take .* GB"):
        Engine(model, n_blocks=n_blocks)
