"""transformers as an oracle: imported here and nowhere else, offline, and once for all tests, for it takes seconds."""

import os
import warnings
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import torch
from tiny_checkpoints import write_checkpoint

import nanolm
from nanolm.checkpoint import SHIPPED
from nanolm.model import NanoLM
from nanolm.text import Tokenizer

os.environ["HF_HUB_OFFLINE"] = "1"


class Pair(NamedTuple):
    """One checkpoint, opened by both."""

    folder: Path
    ours: NanoLM
    theirs: torch.nn.Module
    tokenizer: Tokenizer

    def prompt(self, n_tokens: int, seed: int = 0) -> list[int]:
        """Return token ids that the model itself writes: a trained one is sure of some and torn over others."""
        rules = nanolm.sampling.SamplingParams(temperature=1.0, end_tokens=())
        return [0, *self.ours.generate([0], n_tokens - 1, rules, nanolm.sampling.Rng(seed))]

    def their_greedy(self, prompt: list[int], n_tokens: int, end: int | None = None, **options) -> list[int]:
        """Return transformers' new tokens; `end` None switches the end token off."""
        return self.their_greedy_batch([prompt], n_tokens, end, **options)[0]

    def their_greedy_batch(
        self, prompts: list[list[int]], n_tokens: int, end: int | None = None, **options
    ) -> list[list[int]]:
        """As `their_greedy`, for prompts padded on the left, as transformers wants them."""
        longest = max(map(len, prompts))
        padded = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        self.theirs.generation_config.eos_token_id = end
        text = self.theirs.generate(
            padded, attention_mask=mask, max_new_tokens=n_tokens, do_sample=False, pad_token_id=0, **options
        )
        return text[:, longest:].tolist()

    def assert_same_text(self, prompt: list[int], ours: list[int], theirs: list[int]) -> None:
        """Fail unless the texts are the same, or part at a near tie of the two likeliest tokens.

        Two programs add the same float32 products in different orders. Where the best two logits lie closer than
        the tolerance, both choices are right, and what follows belongs to different texts.
        """
        pairs = zip(ours, theirs, strict=False)
        first = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
        if first == max(len(ours), len(theirs)):
            return
        assert first < min(len(ours), len(theirs)), f"{len(ours)} tokens of ours, {len(theirs)} of theirs"
        with torch.inference_mode():
            best = self.theirs(torch.tensor([prompt + theirs[:first]])).logits[0, -1].topk(2).values
        gap = (best[0] - best[1]).item()
        assert gap < 1e-4, f"token {first} is {ours[first]}, transformers has {theirs[first]} with a lead of {gap:.2g}"


@pytest.fixture(scope="session")
def transformers() -> ModuleType:
    """The library, imported with its own warnings kept out of our tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
    return transformers


@pytest.fixture(scope="session")
def open_pair(transformers):
    """Return the function that opens a checkpoint folder with both."""

    def open_(folder: Path) -> Pair:
        ours, tokenizer = nanolm.load(folder)
        theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        return Pair(folder, ours, theirs, tokenizer)

    return open_


# transformers wants an expert's rows to be whole multiples of 16 bytes: d_ff 12, not 10.
RANDOM = {"random": {}, "random mixture": dict(n_experts=5, experts_per_token=2, d_ff=12)}


@pytest.fixture(scope="session", params=[*RANDOM, "target", "draft", "mixture"])
def pair(request, open_pair, tmp_path_factory) -> Pair:
    """A random checkpoint of either kind, and those that we ship."""
    if request.param in RANDOM:
        return open_pair(write_checkpoint(tmp_path_factory.mktemp("random"), **RANDOM[request.param]))
    return open_pair(SHIPPED / request.param)
