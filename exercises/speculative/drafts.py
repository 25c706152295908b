"""Two kinds of draft: a smaller model, and the text's own past. Plus the calls that put models together.

`speculate` is the one-line way: models in, tokens and counts out.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..cache.kinds import CacheKind
from ..model.decoder import NanoLM, check_prompts
from ..sampling.params import SamplingParams
from ..sampling.rng import Rng
from .generate import Round, SpecDecodeStats, check_draft, speculative_generate
from .ngram_index import NgramIndex
from .session import Session

from course import NotYetWritten


def prompt_lookup(text: Sequence[int], gamma: int, max_ngram: int = 3) -> list[int]:
    """Return up to γ tokens copied from the text itself: a draft without a model.

    The last n tokens are looked for earlier in the text, n from max_ngram down to 1; the first n with a match
    wins, and of its matches the latest. The result is what followed that match, at most γ tokens, fewer if the
    text ends first; no match gives an empty list.

    (Saxena 2023, "Prompt lookup decoding". It pays where the answer repeats the question: code, quotes, summaries.)

    Raises:
        ValueError: gamma negative, or max_ngram below 1.
    """
    raise NotYetWritten(
        "exercise 4.10 prompt_lookup is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative/drafts.py, then "
        "run: NANOLM_IMPL=exercises python -m pytest tests/speculative/test_drafts.py --exercise prompt_lookup"
    )


class ModelDraft:
    """A smaller model with the target's vocabulary, sampled under the same rules as the target."""

    def __init__(
        self, model: NanoLM, sampling: SamplingParams, capacity: int | None = None, cache_kind: CacheKind = "float"
    ) -> None:
        self.session = Session(model, sampling, capacity, cache_kind)

    @property
    def length(self) -> int:
        """Tokens read so far."""
        return self.session.length

    def propose(self, text: Sequence[int], gamma: int, rng: Rng) -> tuple[list[int], Tensor]:
        """Return γ tokens, each drawn given the text and those before it, and their distributions, (γ, V)."""
        drafted: list[int] = []
        probs = []
        unread = list(text[self.length :])
        for _ in range(gamma):
            q = self.session.feed(unread)[-1]
            unread = [rng.categorical(q)]
            drafted += unread
            probs.append(q)
        return drafted, torch.stack(probs) if probs else torch.empty(0, 0)

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        self.session.truncate(length)


class PromptLookupDraft:
    """Proposes by looking back (`prompt_lookup`); each drafted token is certain, so q is 1 at one token.

    Args:
        fast: keep an index of the text as long as it only grows; False searches the whole text each time.
    """

    def __init__(self, vocab_size: int, max_ngram: int = 3, fast: bool = True) -> None:
        self.vocab_size, self.max_ngram, self.fast = vocab_size, max_ngram, fast
        self.length = 0  # of what is to be forgotten after a refusal: it keeps nothing but the text
        self._index = NgramIndex(max_ngram)

    def propose(self, text: Sequence[int], gamma: int, rng: Rng) -> tuple[list[int], Tensor]:
        """Return up to γ tokens and their one-hot distributions, (n, V)."""
        drafted = self._indexed(text).propose(gamma) if self.fast else prompt_lookup(text, gamma, self.max_ngram)
        probs = torch.zeros(len(drafted), self.vocab_size, dtype=torch.float64)
        probs[range(len(drafted)), drafted] = 1.0
        return drafted, probs

    def truncate(self, length: int) -> None:
        """Nothing to forget."""

    def _indexed(self, text: Sequence[int]) -> NgramIndex:
        begin, tokens = text[: len(self._index)], self._index.tokens
        if begin != tokens and list(begin) != tokens:  # another text, or one that went back
            self._index = NgramIndex(self.max_ngram)
        self._index.extend(text[len(self._index) :])
        return self._index


def speculate(
    target: NanoLM,
    draft: NanoLM | PromptLookupDraft,
    prompt: Sequence[int],
    max_new_tokens: int,
    gamma: int = 4,
    sampling: SamplingParams | None = None,
    rng: Rng | None = None,
    on_round: Callable[[Round], None] | None = None,
) -> tuple[list[int], SpecDecodeStats]:
    """Return (new tokens, counts) of speculative decoding with two models, or a model and its own past.

    The tokens are distributed as `target.generate` alone would give them; at temperature 0 they are the same.

    Raises:
        ValueError: vocabularies that differ, or a request that `NanoLM.generate` would refuse.
    """
    sampling, rng = sampling or SamplingParams(temperature=0.0), rng or Rng()
    check_prompts([prompt], max_new_tokens, target.config)
    check_draft(
        draft.config.vocab_size if isinstance(draft, NanoLM) else draft.vocab_size, target.config.vocab_size, gamma
    )
    capacity = len(prompt) + max_new_tokens
    if isinstance(draft, NanoLM):
        check_prompts([prompt], max_new_tokens, draft.config)
    source = ModelDraft(draft, sampling, capacity) if isinstance(draft, NanoLM) else draft
    ends = sampling.ends(target.config.eos_token_ids)
    session = Session(target, sampling, capacity)
    return speculative_generate(session, source, prompt, max_new_tokens, gamma, rng, ends, on_round)
