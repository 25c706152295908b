"""The whole of speculative decoding on real (tiny) models, every outcome followed: the text is the target's own."""

import math
from itertools import product

import pytest
import torch
from enumeration import exact_distribution

from nanolm.config import ModelConfig
from nanolm.model import NanoLM
from nanolm.sampling import Rng, SamplingParams
from nanolm.speculative import PromptLookupDraft, speculate

PROMPT = [2, 0, 1]


def tiny_model(seed, n_layers):
    """V = 4, weights large enough that distributions are far from flat, float64 so that 1e-12 means something."""
    torch.manual_seed(seed)
    model = NanoLM(ModelConfig(4, 16, n_layers, 4, 2, 4, 24, max_positions=32)).double().eval().requires_grad_(False)
    for weight in model.parameters():
        if weight.ndim == 2:
            weight.mul_(25)
    return model


TARGET, DRAFT = tiny_model(1, 2), tiny_model(2, 1)


def probability_alone(text, rule):
    """The probability that the target writes `text`, by a full pass over each beginning and torch's own softmax."""
    total = 1.0
    for i, token in enumerate(text):
        logits = TARGET(torch.tensor([[*PROMPT, *text[:i]]]))[0, -1]
        total *= rule(logits)[token].item()
    return total


def plain(temperature):
    return lambda logits: torch.softmax(logits / temperature, dim=-1)


def two_most_probable(logits):
    probs = torch.softmax(logits, dim=-1)
    probs[probs.argsort()[:2]] = 0
    return probs / probs.sum()


@pytest.mark.parametrize(
    ("sampling", "rule"),
    [
        (SamplingParams(1.0), plain(1.0)),
        (SamplingParams(0.5), plain(0.5)),
        (SamplingParams(1.0, top_k=2), two_most_probable),
    ],
    ids=["temperature 1", "temperature 0.5", "top-k 2"],
)
@pytest.mark.parametrize("draft", [DRAFT, PromptLookupDraft(4)], ids=["model", "prompt-lookup"])
def test_every_text_of_three_tokens_has_the_probability_that_the_target_alone_gives_it(draft, sampling, rule):
    with torch.inference_mode():
        outcome = exact_distribution(lambda rng: tuple(speculate(TARGET, draft, PROMPT, 3, 2, sampling, rng)[0]))
        for text in product(range(4), repeat=3):
            alone = probability_alone(text, rule)
            assert abs(outcome.get(text, 0.0) - alone) < 1e-12, (
                f"text {text}: {outcome.get(text, 0.0):.6f} with speculation, {alone:.6f} alone; was the ratio taken "
                "before temperature and top-k?"
            )
    assert math.isclose(sum(outcome.values()), 1.0, abs_tol=1e-12)


def test_at_temperature_zero_speculation_writes_the_targets_greedy_text():
    for seed in range(5):
        prompt = torch.randint(4, (3,), generator=torch.Generator().manual_seed(seed)).tolist()
        for gamma in (0, 1, 3):
            assert speculate(TARGET, DRAFT, prompt, 20, gamma)[0] == TARGET.generate(prompt, 20)


def test_the_same_seed_gives_the_same_text():
    texts = [speculate(TARGET, DRAFT, PROMPT, 20, 3, SamplingParams(1.0), Rng(seed=7))[0] for _ in range(2)]
    assert texts[0] == texts[1]


def test_a_draft_with_another_vocabulary_is_refused():
    with pytest.raises(ValueError, match="draft has 5 tokens and target 4"):
        speculate(TARGET, PromptLookupDraft(5), PROMPT, 3)
