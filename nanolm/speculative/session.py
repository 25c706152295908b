"""A text in the middle of being written: a model, its cache, and the rules for choosing tokens.

Algorithms that go forward several tokens and sometimes back (speculation) talk to a session and never see a cache.
Whatever has `length`, `feed` and `truncate` can stand in for one, which is how they are tested without a model.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..cache.kinds import CacheKind
from ..model.decoder import NanoLM
from ..sampling.adjust import adjust_rows
from ..sampling.params import SamplingParams


class Session:
    """One sequence being read by one model.

    Attributes:
        length: tokens read so far; the cache holds exactly these.
        passes: forward passes run so far.
        n_prompt: how many of the first tokens are the prompt, which a minimum length and the penalties on the answer
            leave out. None until the first pass, which takes for the prompt all that it has read before its first
            scored row ends; so set it where a prompt is read in pieces.
    """

    def __init__(
        self,
        model: NanoLM,
        sampling: SamplingParams | None = None,
        capacity: int | None = None,
        cache_kind: CacheKind = "float",
    ) -> None:
        self.model, self.sampling = model, sampling or SamplingParams()
        self.cache = model.new_cache(capacity=capacity, cache_kind=cache_kind)
        self.passes = 0
        self.n_prompt: int | None = None
        self._read: list[int] = []

    @property
    def length(self) -> int:
        """Tokens read so far."""
        return self.cache.length

    @torch.inference_mode()
    def feed(self, tokens: Sequence[int], last: int = 1) -> Float[Tensor, "last V"]:
        """Read more tokens in one pass; return the distribution of the next token after each of the last `last`.

        Row -1 is what follows the whole text so far. Probabilities are float64 on the CPU, with every rule of
        `sampling` applied.

        Raises:
            ValueError: no tokens, or `last` outside 1 … len(tokens); what `adjust_rows` refuses.
        """
        if not 1 <= last <= len(tokens):
            raise ValueError(
                f"last is {last} and {len(tokens)} tokens were given; last must be 1 to the number of tokens"
            )
        logits = self.model(torch.tensor([list(tokens)], device=self.model.device), self.cache, last)[0]
        self.cache.advance(len(tokens))
        self._read += tokens
        self.passes += 1
        return self.sampling.probs(self._adjusted(logits.to("cpu", torch.float64)))

    def _adjusted(self, logits: Tensor) -> Tensor:
        """The logits of the last rows, (last, V), with the rules that look at the text."""
        n_before = self.length - len(logits) + 1  # what the first row has read
        if self.n_prompt is None:
            self.n_prompt = n_before
        if not self.sampling.adjusts:
            return logits
        ends = self.sampling.ends(self.model.config.eos_token_ids)
        text, drafted = self._read[:n_before], self._read[n_before:]
        return adjust_rows(logits, self.sampling, text, self.n_prompt, ends, drafted)

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens, as if the others had never been read."""
        self.cache.truncate(length)
        if self.n_prompt is not None and length < min(self.n_prompt, len(self._read)):
            self.n_prompt = None  # a part of the prompt is forgotten: what is read next may be another one
        del self._read[length:]
