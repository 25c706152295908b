"""The engine's pass in the functions that the lessons teach, and nothing else: slower, and equal to the fast one.

Every request's attention is computed by itself over its gathered blocks, every token drawn by `sample_next`, every
draft verified by a `speculative_round`, and the model is one whose fast paths are off. What the fast runner does
otherwise, it does for speed alone; a test compares the two.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..model.decoder import NanoLM
from ..paging.paged_cache import PagedKVCache
from ..quantization.linear import Int4Linear
from ..sampling.rng import Rng
from ..sampling.sampler import sample_next
from ..speculative.generate import speculative_round
from .model_runner import ModelRunner, Outcome
from .request import Request
from .scheduler import Work
from .varlen_batch import Segment


class _NotFinite(Exception):
    """Logits are NaN or infinite, or a row has none but -inf."""


class PlainRunner(ModelRunner):
    """As ModelRunner, one request after the other."""

    def __init__(self, model: NanoLM, cache: PagedKVCache, draft: NanoLM | str | None, *others: Any) -> None:
        plain_draft = plain_model(draft) if isinstance(draft, NanoLM) else draft
        super().__init__(plain_model(model), cache, plain_draft, *others)

    def run(self, work: Sequence[Work]) -> tuple[list[Outcome], float]:
        """Run one pass; return what it brought each request, in order, and the seconds that the model took."""
        self._seconds = 0.0
        return [Outcome(request, n, self._new_tokens(request, n)) for request, n in work], self._seconds

    def _new_tokens(self, request: Request, n: int) -> list[int] | None:
        n_drafted = request.n_drafted_in(n)
        target = _Target(self, request)
        try:
            if n_drafted > 0:
                given = _Given(request, n_drafted)
                return speculative_round(target, given, request.tokens, n_drafted, request.rng).tokens
            logits = target.logits(request.tokens[request.n_computed :][:n], 1)
        except _NotFinite:
            return None
        return [] if n_drafted < 0 else sample_next(logits, request.sampling, request.rng).tolist()

    def scores(self, segment: Segment) -> Tensor:
        """Return the logits that one segment asks for, (n_scored, V).

        Raises:
            _NotFinite: they hold NaN or infinity, or a row of -inf only.
        """
        logits, seconds = self.forward_segments([segment], one_by_one=True)
        self._seconds += seconds
        if not torch.isfinite(logits.amax(-1)).all():
            raise _NotFinite
        return logits


class _Target:
    """A request as the target of a round: what it reads goes into the engine's blocks.

    Forgetting is left to the engine, which gives the blocks back when it counts the round's tokens.
    """

    def __init__(self, runner: PlainRunner, request: Request) -> None:
        self.runner, self.request, self.length = runner, request, request.n_computed

    def logits(self, tokens: Sequence[int], last: int) -> Tensor:
        return self.runner.scores(Segment(tokens, self.request.n_computed, self.request.table, last))

    def feed(self, tokens: Sequence[int], last: int = 1) -> Tensor:
        return self.request.sampling.probs(self.logits(tokens, last).to("cpu", torch.float64))

    def truncate(self, length: int) -> None:
        pass


class _Given:
    """A draft whose tokens have been proposed already: before the pass was planned, which had to know how many."""

    def __init__(self, request: Request, n: int) -> None:
        self.request, self.n, self.length = request, n, 0

    def propose(self, text: Sequence[int], gamma: int, rng: Rng) -> tuple[list[int], Tensor]:
        return self.request.draft[: self.n], self.request.draft_probs[: self.n]

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
