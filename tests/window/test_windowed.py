"""`nanolm/window/windowed.py`: a model whose configuration has windows sees them in any cache, and without one."""

import pytest
import torch
from by_hand import close
from tiny_models import tiny_config, tokens_of

from nanolm.engine import Engine
from nanolm.model import NanoLM, StaticDecoder
from nanolm.sampling import Rng, SamplingParams
from nanolm.speculative import PromptLookupDraft, speculate

WINDOWS = (4, None, 3)
TOKENS = tokens_of(2, 11)
GREEDY = SamplingParams(temperature=0.0, end_tokens=())


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return NanoLM(tiny_config(windows=WINDOWS)).double().requires_grad_(False)


def masked(model, tokens):
    """The logits with every layer's mask made by hand, pair by pair."""
    B, T = tokens.shape

    class ByHand:
        batch_size, capacity, gives_rows, offset = B, T, False, 0

        def attend(self, layer, q, k, v, scale=None):
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
            window = WINDOWS[layer] or T
            for i in range(T):
                for j in range(T):
                    if not i - window < j <= i:
                        scores[..., i, j] = -torch.inf
            return scores.softmax(-1) @ v

    return model(tokens, ByHand())


def test_a_pass_without_a_cache_sees_the_windows(model):
    assert close(model(TOKENS), masked(model, TOKENS))


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("parts", [[11], [1] * 11, [5, 6], [2, 7, 1, 1]])
def test_a_text_in_parts_sees_what_it_sees_in_one(model, ragged, parts):
    cache, logits = model.new_cache(2, 16, ragged=ragged), []
    for part in TOKENS.split(parts, dim=1):
        logits.append(model(part, cache))
        cache.advance(part.shape[1])
    assert close(torch.cat(logits, dim=1), masked(model, TOKENS))


def test_rows_of_unequal_length_see_their_own_windows(model):
    cache = model.new_cache(2, 16, ragged=True)
    model(TOKENS[:, :8], cache)
    cache.advance([8, 5])
    logits = model(TOKENS[:, 8:10], cache)
    assert close(logits[0], masked(model, TOKENS[:1, :10])[0, -2:])
    second = torch.cat([TOKENS[1:, :5], TOKENS[1:, 8:10]], dim=1)
    assert close(logits[1], masked(model, second)[0, -2:])


def test_a_windowed_cache_can_go_back_any_number_of_positions(model):
    cache = model.new_cache(2, 16)
    model(TOKENS, cache)
    cache.advance(11)
    cache.truncate(2)
    assert close(model(TOKENS[:, 2:9], cache), masked(model, TOKENS[:, :9])[:, 2:])


@pytest.mark.parametrize("kind", ["int8", "float8"])
def test_codes_in_windows_are_near_the_numbers(model, kind):
    cache = model.new_cache(2, 16, cache_kind=kind)
    off = (model(TOKENS, cache) - masked(model, TOKENS)).std() / masked(model, TOKENS).std()
    assert 0 < off < (0.05 if kind == "int8" else 0.3)


def test_speculation_and_the_engine_write_the_same_text(model):
    prompt = TOKENS[0].tolist()
    alone = model.generate(prompt, 20, GREEDY)
    drafted, _ = speculate(model, PromptLookupDraft(model.config.vocab_size), prompt, 20, 4, GREEDY, Rng(0))
    assert drafted == alone
    assert Engine(model, block_size=2, draft="prompt-lookup").generate([prompt], 20, GREEDY) == [alone]


def test_a_draft_with_windows_and_recorded_steps_are_refused(model):
    plain = NanoLM(tiny_config()).double()
    with pytest.raises(ValueError, match="draft is a model with windows"):
        Engine(plain, draft=model)
    with pytest.raises(ValueError, match="depend on the length of the text"):
        StaticDecoder(model)


def test_windows_are_one_a_layer():
    with pytest.raises(ValueError, match="windows has 2 entries; there must be one a layer, 3"):
        tiny_config(windows=(4, None))
