"""The engine's pass in the functions that the lessons teach, and nothing else: slower, and equal to the fast one.

Every request's attention is computed by itself over its gathered blocks, every token drawn by `sample_next`, every
draft looked up by `prompt_lookup` and verified by a `speculative_round`, and the model is one whose fast paths are off.
What the fast runner does otherwise, it does for speed alone; a test compares the two.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..model.decoder import NanoLM
from ..paging.paged_cache import PagedKVCache
from ..quantization.linear import Int4Linear
from ..sampling.params import SamplingParams
from ..sampling.rng import Rng
from ..sampling.sampler import sample_next
from ..speculative.drafts import prompt_lookup
from ..speculative.generate import speculative_round
from ..varlen.paged_rows import Segment
from .drafting import VERIFICATION, LookupDrafts, NoDrafts, adjust_request
from .model_runner import ModelRunner
from .request import Request
from .scheduler import Work
from .token_choice import Outcome, TokenChoice, not_finite, outcome_of


class PlainLookupDrafts(LookupDrafts):
    """As LookupDrafts, the whole text searched each time."""

    def look_up(self, request: Request, n: int) -> list[int]:
        """Return up to n tokens that followed before."""
        return prompt_lookup(request.tokens, n)


class PlainRunner(ModelRunner):
    """As ModelRunner, one request after the other."""

    fast = False

    def __init__(self, model: NanoLM, cache: PagedKVCache, draft: NanoLM | str | None, *others: Any) -> None:
        plain_draft = plain_model(draft) if isinstance(draft, NanoLM) else draft
        super().__init__(plain_model(model), cache, plain_draft, *others)

    def _drafts(self, draft: NanoLM | str | None, *others: Any) -> NoDrafts:
        if self.control is not None and not isinstance(draft, NanoLM):
            return PlainLookupDrafts(self.control, self.clock)
        return super()._drafts(draft, *others)

    def run(self, work: Sequence[Work]) -> tuple[list[Outcome], float]:
        """Run one pass; return what it brought each request, in order, and the seconds that the model took."""
        work = self.drafts.propose(work)
        self._seconds, started = 0.0, self.clock()
        outcomes = [outcome for request, n in work for outcome in self._outcomes(request, n)]
        self.count(outcomes, self.clock() - started)
        return outcomes, self._seconds

    def _outcomes(self, request: Request, n: int) -> list[Outcome]:
        if request.n_drafted_in(n) > 0 and not request.has_seed:
            return [self._round(request, n)]
        logits, seconds = self.forward([Work(request, n)])
        self._seconds += seconds
        return self.outcomes([Work(request, n)], logits, PlainChoice())

    def _round(self, request: Request, n: int) -> Outcome:
        """Run one round of speculation, its drafted tokens given."""
        n_drafted, target = request.n_drafted_in(n), _Target(self, request)
        given = _Given(request, n_drafted, self.model.config.vocab_size)
        rng = request.rng.at(2 * request.n_drawn, VERIFICATION)
        try:
            new = speculative_round(target, given, request.tokens, n_drafted, rng).tokens
        except ValueError as error:
            return Outcome(request, n, None, error=str(error))
        return outcome_of(request, n, new, target.raw)

    def scores(self, request: Request, tokens: Sequence[int], n_scored: int) -> Tensor:
        """Run a request's next tokens; return the logits behind the last of them, (n_scored, V)."""
        segment = Segment(tokens, request.n_computed, request.table, n_scored)
        logits, seconds = self.forward_segments(self.model, self.cache, [segment])
        self._seconds += seconds
        return logits


class PlainChoice(TokenChoice):
    """As TokenChoice, row by row."""

    def draw(self, logits: Tensor, rules: Sequence[SamplingParams], rng: Sequence[Rng]) -> list[int]:
        """Return a token for each row, by `sample_next`."""
        rows = zip(logits.split(1), rules, rng, strict=True)
        return [int(sample_next(row, sampling, each)) for row, sampling, each in rows]


class _Target:
    """A request as the target of a round: what it reads goes into the engine's blocks.

    Forgetting is left to the engine, which gives the blocks back when it counts the round's tokens.
    """

    def __init__(self, runner: PlainRunner, request: Request) -> None:
        self.runner, self.request, self.length = runner, request, request.n_computed

    def feed(self, tokens: Sequence[int], last: int = 1) -> Tensor:
        self.raw = self.runner.scores(self.request, tokens, last)
        if not torch.isfinite(self.raw.amax(-1)).all():
            raise ValueError(not_finite(self.request.n_computed + len(tokens)))
        adjusted = adjust_request(self.request, self.raw, tokens[len(tokens) - last + 1 :])
        return self.request.sampling.probs(adjusted.to("cpu", torch.float64))

    def truncate(self, length: int) -> None:
        pass


class _Given:
    """A draft whose tokens have been proposed already: before the pass was planned, which had to know how many."""

    def __init__(self, request: Request, n: int, vocab_size: int) -> None:
        self.drafted, self.length = request.draft[:n], 0
        certain = one_hot(torch.tensor(self.drafted), vocab_size).double()
        self.probs = certain if request.draft_probs is None else request.draft_probs[:n]

    def propose(self, text: Sequence[int], gamma: int, rng: Rng) -> tuple[list[int], Tensor]:
        return self.drafted, self.probs

    def truncate(self, length: int) -> None:
        pass


def plain_model(model: NanoLM) -> NanoLM:
    """Return a model over the same weights, which are shared, whose layers compute the plain way (`fast` is False).

    Raises:
        ValueError: a layer keeps its weights in a form that only a kernel can read.
    """
    locked = next((name for name, module in model.named_modules() if isinstance(module, Int4Linear)), None)
    if locked is not None:
        raise ValueError(
            f"model keeps {locked} in this processor's own layout of 4-bit codes, which has no plain path; "
            "quantize_model(…, kernels=False) keeps the codes as they are"
        )
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    plain = copy.deepcopy(model, shared)
    for module in plain.modules():
        if hasattr(module, "fast"):
            module.fast = False  # pyright: ignore[reportArgumentType]  torch's stub: only tensors and modules
    return plain
