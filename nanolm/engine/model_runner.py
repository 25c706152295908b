"""The half of the engine that computes: drafts, the pass of the model, and the choice of tokens. It keeps no books."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .._require import require_count
from ..cache.kinds import CacheKind
from ..model.decoder import NanoLM
from ..paging.paged_cache import PagedKVCache
from ..sampling.params import SamplingParams
from ..sampling.rng import draw_rows
from ..speculative.acceptance import verify_draft
from ..speculative.drafts import ModelDraft, PromptLookupDraft
from ..speculative.generate import check_draft
from .request import Request
from .scheduler import Work
from .varlen_batch import Segment, VarlenBatch


class Outcome(NamedTuple):
    """What a pass brought a request, of whose pending tokens it ran n_tokens.

    `new` are its new tokens, none after a chunk of a prompt; None where its logits are NaN or infinite.
    """

    request: Request
    n_tokens: int
    new: list[int] | None


class ModelRunner:
    """Runs the passes of an engine.

    Args:
        model: the target.
        cache: the pool of blocks.
        draft: a smaller model of the same vocabulary, "prompt-lookup", or None.
        gamma: most tokens to draft for a request and pass.
        cache_kind: how a draft model's own cache keeps its numbers.
        clock: returns seconds.

    Raises:
        ValueError: a draft of another vocabulary or another name; gamma below 1.
    """

    def __init__(
        self,
        model: NanoLM,
        cache: PagedKVCache,
        draft: NanoLM | str | None,
        gamma: int,
        cache_kind: CacheKind,
        clock: Callable[[], float],
    ) -> None:
        _check(draft, model, gamma)
        self.model, self.cache, self.draft, self.gamma = model, cache, draft, gamma
        self.cache_kind: CacheKind = cache_kind
        self.clock = clock

    def draft_source(self, sampling: SamplingParams, capacity: int) -> ModelDraft | PromptLookupDraft | None:
        """Return what proposes tokens for one request of at most `capacity` tokens; None without a draft."""
        if isinstance(self.draft, NanoLM):
            return ModelDraft(self.draft, sampling, capacity, self.cache_kind)
        return PromptLookupDraft(self.model.config.vocab_size) if self.draft is not None else None

    def propose(self, running: Sequence[Request], max_tokens: int) -> None:
        """Draft the next tokens of each request that decodes, as many as fit into a pass beside the others."""
        if self.draft is None:
            return
        decoding = [request for request in running if request.is_decoding]
        room = max_tokens - len(decoding)
        for request in decoding:
            source, gamma = request.draft_source, min(self.gamma, request.n_left - 1, room)
            request.draft = []
            if source is None or gamma < 1:
                continue
            # It may have read drafts that were refused, or that have never been run: a pass failed, blocks were lost.
            source.truncate(min(request.n_computed, source.length))
            request.draft, request.draft_probs = source.propose(request.tokens, gamma, request.rng)
            room -= len(request.draft)

    def run(self, work: Sequence[Work]) -> tuple[list[Outcome], float]:
        """Run one pass; return what it brought each request, in order, and the seconds that the model took."""
        logits, seconds = self.forward(work)
        finite = torch.isfinite(logits.amax(-1)).tolist()  # a row of -inf only, a NaN or an infinity: no finite largest
        new: dict[Request, list[int] | None] = {}
        rows: dict[Request, int] = {}
        start = 0
        for request, n in work:
            n_drafted = request.n_drafted_in(n)
            stop = start + max(1, n_drafted + 1)
            if not all(finite[start:stop]):
                new[request] = None
            elif n_drafted > 0:
                new[request] = self._verify(request, logits[start:stop])
            elif n_drafted == 0:
                rows[request] = start
            start = stop
        new |= {request: [token] for request, token in _choose(rows, logits).items()}
        return [Outcome(request, n, new.get(request, [])) for request, n in work], seconds

    def forward(self, work: Sequence[Work]) -> tuple[Tensor, float]:
        """Run the model over every request's next pending tokens, the last of them drafted.

        Returns:
            logits, a row for the last of its own tokens and for each drafted one, request after request, (rows, V),
            and the seconds it took.
        """
        segments = []
        for request, n in work:
            pending = [*request.tokens[request.n_computed :], *request.draft][:n]
            # The end of a chunk gets logits too, only to see that they are finite: no NaN may enter the prefix cache.
            n_scored = max(1, request.n_drafted_in(n) + 1)
            segments.append(Segment(pending, request.n_computed, request.table, n_scored))
        return self.forward_segments(segments)

    @torch.inference_mode()
    def forward_segments(self, segments: Sequence[Segment], one_by_one: bool = False) -> tuple[Tensor, float]:
        """Run the model over the segments; return the logits that they ask for, (rows, V), and the seconds it took."""
        batch = VarlenBatch(self.cache, segments, one_by_one)
        started = self.clock()
        logits = self.model(batch.tokens, batch, batch.scored)[0]
        if logits.device.type == "cuda":
            torch.cuda.synchronize()
        return logits, self.clock() - started

    def _verify(self, request: Request, logits: Tensor) -> list[int]:
        drafted = request.draft[: len(logits) - 1]
        probs = request.sampling.probs(logits.to("cpu", torch.float64))
        return verify_draft(probs, request.draft_probs[: len(drafted)], drafted, request.rng)


def _choose(rows: dict[Request, int], logits: Tensor) -> dict[Request, int]:
    """Return one token a request, each by its own rules and rng; requests with equal rules are done together.

    `sample_next` for many: the same tokens as from one row after the other.
    """
    tokens: dict[Request, int] = {}
    groups: dict[SamplingParams, list[Request]] = {}
    for request in rows:
        groups.setdefault(request.sampling, []).append(request)
    for sampling, members in groups.items():
        mine = logits[[rows[request] for request in members]]  # (members, V)
        if sampling.temperature == 0:
            drawn = mine.max(-1).indices.tolist()  # the first among equals
        else:
            drawn = draw_rows(sampling.probs(mine).cpu(), [request.rng for request in members])
        tokens |= dict(zip(members, drawn, strict=True))
    return tokens


def _check(draft: NanoLM | str | None, model: NanoLM, gamma: int) -> None:
    if isinstance(draft, NanoLM):
        check_draft(draft.config.vocab_size, model.config.vocab_size, gamma)
    elif draft not in (None, "prompt-lookup"):
        raise ValueError(f"draft is {draft!r}; it must be a model, 'prompt-lookup' or None")
    require_count(1, gamma=gamma)
