"""The rules that choose a token, against transformers: the same tokens kept, with the same probabilities."""

import importlib.util

import pytest
import torch

from nanolm.sampling import SamplingParams, adjust_rows, fast_probs

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed, so nothing was compared with it", allow_module_level=True)

V, N, END = 1000, 6, (7, 900)
TEXT = torch.randint(V, (40,), generator=torch.Generator().manual_seed(1)).tolist()
N_PROMPT = 30
RULES = [
    {"min_p": 0.05},
    {"min_p": 0.3, "temperature": 1.7},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.8, "temperature": 0.6},
    {"top_k": 50},
    {"top_p": 0.9},
    {"top_k": 50, "top_p": 0.9},
    {"min_new_tokens": 11},
    {"min_new_tokens": 10},
    {"temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.02, "repetition_penalty": 1.1, "min_new_tokens": 20},
]


def their_probs(transformers, logits, rules):
    """The processors that `generate` makes of these settings, in its order, and softmax."""
    made = transformers.LogitsProcessorList()
    if rules.get("min_new_tokens"):
        made.append(transformers.MinNewTokensLengthLogitsProcessor(N_PROMPT, rules["min_new_tokens"], list(END)))
    if "repetition_penalty" in rules:
        made.append(transformers.RepetitionPenaltyLogitsProcessor(rules["repetition_penalty"]))
    for name, warper in (
        ("temperature", transformers.TemperatureLogitsWarper),
        ("top_k", transformers.TopKLogitsWarper),
        ("top_p", transformers.TopPLogitsWarper),
        ("min_p", transformers.MinPLogitsWarper),
    ):
        if name in rules:
            made.append(warper(rules[name]))
    return torch.softmax(made(torch.tensor([TEXT] * len(logits)), logits.clone()), dim=-1)


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_probabilities_agree_with_their_processors(transformers, rules):
    # Random logits: no ties, at which theirs keep more than k.
    logits = 3 * torch.randn(N, V, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    logits[:, 7] = logits.amax(dim=-1)  # an end token that matters
    sampling = SamplingParams(**rules)
    # One row behind the text: their processors know one text for all rows, and ours a row for each drafted token.
    adjusted = torch.cat([adjust_rows(row[None], sampling, TEXT, N_PROMPT, END, ()) for row in logits])
    theirs = their_probs(transformers, logits, rules)
    for ours in (sampling.probs(adjusted), fast_probs(adjusted, sampling)):
        assert torch.equal(ours > 0, theirs > 0), f"{rules}: other tokens stay"
        assert (ours - theirs).abs().max() < 1e-12, (
            f"{rules}: probabilities differ by {(ours - theirs).abs().max():.2g}"
        )
