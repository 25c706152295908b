"""What nanolm computes, against transformers on the same checkpoint: logits, greedy text, batches, speculation."""

import pytest
import torch

from nanolm.sampling import SamplingParams
from nanolm.speculative import speculate

WITHOUT_END = SamplingParams(temperature=0.0, end_tokens=())


@pytest.mark.parametrize(("n_tokens", "tolerance"), [(1, 1e-4), (7, 1e-4), (600, 1e-3)])
def test_logits_of_every_position_agree(pair, n_tokens, tolerance):
    tokens = torch.tensor([pair.prompt(n_tokens)])
    with torch.inference_mode():
        ours, theirs = pair.ours(tokens), pair.theirs(tokens).logits
    # Most of the difference is theirs, from rotary angles in float32: it grows with the position. Over twelve texts of
    # 600 tokens theirs are up to 6e-4 away from the same model in float64, ours up to 5e-5.
    assert (ours - theirs).abs().max() < tolerance


def test_logits_with_a_cache_agree_within_1e_minus_4_in_passes_of_any_size(pair):
    tokens = torch.tensor([pair.prompt(300)])
    cache, ours = pair.ours.new_cache(capacity=300), []
    with torch.inference_mode():
        for chunk in tokens.split([250, 1, 5, 1, 43], dim=1):
            ours.append(pair.ours(chunk, cache))
            cache.advance(chunk.shape[1])
        theirs = pair.theirs(tokens).logits
    assert (torch.cat(ours, dim=1) - theirs).abs().max() < 1e-4


@pytest.mark.parametrize(("n_tokens", "n_new"), [(1, 40), (5, 40), (400, 200)])
def test_greedy_text_is_identical(pair, n_tokens, n_new):
    prompt = pair.prompt(n_tokens)
    pair.assert_same_text(prompt, pair.ours.generate(prompt, n_new, WITHOUT_END), pair.their_greedy(prompt, n_new))


def test_greedy_text_stops_at_the_same_end_token(pair):
    prompt = pair.prompt(5)
    # An end token that surely comes: the last to appear for the first time in the greedy text.
    text = pair.ours.generate(prompt, 60, WITHOUT_END)
    end = list(dict.fromkeys(text))[-1]
    ours = pair.ours.generate(prompt, 60, SamplingParams(temperature=0.0, end_tokens=(end,)))
    assert ours == text[: text.index(end) + 1]
    pair.assert_same_text(prompt, ours, pair.their_greedy(prompt, 60, end))


def test_greedy_text_with_the_checkpoint_s_own_end_token_is_identical(pair):
    (end,) = pair.ours.config.eos_token_ids
    prompt = pair.prompt(30, seed=1)
    ours = pair.ours.generate(prompt, 200, SamplingParams(temperature=0.0))
    pair.assert_same_text(prompt, ours, pair.their_greedy(prompt, 200, end))


def test_a_batch_of_unequal_prompts_gives_each_the_text_that_left_padding_gives(pair):
    prompts = [pair.prompt(n, seed=n) for n in (3, 40, 17, 1)]
    ours = pair.ours.generate(prompts, 60, WITHOUT_END)
    theirs = pair.their_greedy_batch(prompts, 60)
    for prompt, our_text, their_text in zip(prompts, ours, theirs, strict=True):
        pair.assert_same_text(prompt, our_text, their_text)


@pytest.fixture(scope="session")
def drafted(open_pair, tmp_path_factory):
    """The target and draft that we ship."""
    from nanolm.checkpoint import SHIPPED

    return open_pair(SHIPPED / "target"), open_pair(SHIPPED / "draft")


def test_assisted_generation_with_our_draft_gives_the_target_s_own_greedy_text(drafted):
    target, draft = drafted
    prompt = target.prompt(20)
    alone = target.their_greedy(prompt, 100)
    draft.theirs.generation_config.eos_token_id = None
    target.assert_same_text(prompt, target.their_greedy(prompt, 100, assistant_model=draft.theirs), alone)
    ours, counts = speculate(target.ours, draft.ours, prompt, 100, gamma=4, sampling=WITHOUT_END)
    target.assert_same_text(prompt, ours, alone)
    assert counts.accepted > 0
