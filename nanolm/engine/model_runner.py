"""The half of the engine that computes: drafts, the pass of the model, and the choice of tokens. It keeps no books."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .._require import require_whole
from ..cache.kinds import CacheKind
from ..model.decoder import NanoLM
from ..paging.paged_cache import PagedKVCache
from ..paging.table_rows import TableRows
from ..speculative.adaptive import AdaptiveGamma
from ..speculative.generate import check_draft
from ..varlen.paged_rows import Segment
from ..varlen.varlen_batch import VarlenBatch
from .drafting import LookupDrafts, ModelDrafts, NoDrafts
from .request import Request
from .scheduler import Work
from .token_choice import Outcome, TokenChoice, not_finite, score_prompt


class ModelRunner:
    """Runs the passes of an engine.

    Args:
        model: the target.
        cache: the pool of blocks.
        draft: a smaller model of the same vocabulary, "prompt-lookup", or None.
        gamma: most tokens to draft for a request and pass.
        adaptive: whether drafting stops where it does not pay.
        max_tokens: most tokens a pass, also of a draft model.
        cache_kind: how keys and values are kept.
        clock: returns seconds.

    Raises:
        ValueError: a draft of another vocabulary or another name; gamma below 1.
    """

    fast = True

    def __init__(
        self,
        model: NanoLM,
        cache: PagedKVCache,
        draft: NanoLM | str | None,
        gamma: int,
        adaptive: bool,
        max_tokens: int,
        cache_kind: CacheKind,
        clock: Callable[[], float],
    ) -> None:
        _check(draft, model, gamma)
        self.model, self.cache, self.clock = model, cache, clock
        self._tables = TableRows(cache.pools[0].device)
        self.control = AdaptiveGamma(gamma, adaptive) if draft is not None else None
        self.drafts = self._drafts(draft, cache_kind, max_tokens)

    def _drafts(self, draft: NanoLM | str | None, cache_kind: CacheKind, max_tokens: int) -> NoDrafts:
        if self.control is None:
            return NoDrafts()
        if not isinstance(draft, NanoLM):
            return LookupDrafts(self.control, self.clock)
        size = self.cache.n_blocks, self.cache.block_size, cache_kind
        return ModelDrafts(draft, *size, self.control, max_tokens, self.forward_segments, self.clock)

    def plan(self, running: Sequence[Request], max_tokens: int) -> None:
        """Let each request that decodes have a draft in the next pass, as many tokens as fit beside the others.

        But for one with followers: they begin where its own last row is, and what it drafts is not theirs.
        """
        decoding = [request for request in running if request.is_decoding]
        self.drafts.plan([request for request in decoding if not request.followers], max_tokens - len(decoding))

    def copy_blocks(self, copies: list[tuple[int, int]]) -> None:
        """Copy blocks, (from, to), of the cache and of what the draft keeps."""
        self.cache.copy_blocks(copies)
        self.drafts.copy_blocks(copies)

    def clear_blocks(self, blocks: list[int]) -> None:
        """Fill blocks with zeros, those of the draft as well."""
        self.cache.clear_blocks(blocks)
        self.drafts.clear_blocks(blocks)

    def run(self, work: Sequence[Work]) -> tuple[list[Outcome], float]:
        """Run one pass; return what it brought each request, in order, and the seconds that the target took."""
        work = self.drafts.propose(work)
        started = self.clock()
        logits, seconds = self.forward(work)
        outcomes = self.outcomes(work, logits)
        self.count(outcomes, self.clock() - started)
        return outcomes, seconds

    def count(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """Tell the control of the drafts how they fared, and how long the target took to check them and draw."""
        if self.control is None:
            return
        for request, n, new, *_ in outcomes:
            if new:
                n_drafted = max(0, request.n_drafted_in(n))  # below 0 for one that follows another's prompt
                self.control.count(request.draft_wish, n_drafted, min(n_drafted, len(new)), len(new) - 1)
        if all(request.is_decoding for request, *_ in outcomes):
            self.control.time_target(sum(n for _, n, *_ in outcomes), seconds)

    def outcomes(self, work: Sequence[Work], logits: Tensor, choice: TokenChoice | None = None) -> list[Outcome]:
        """Return what a pass brought each request, and its followers behind it."""
        finite = torch.isfinite(logits.amax(-1)).tolist()  # a row of -inf only, a NaN or an infinity: no finite largest
        choice, start = choice or TokenChoice(), 0
        for request, n in work:
            stop = start + request.n_scored_in(n)
            if not all(finite[start:stop]):
                choice.refuse(request, n, not_finite(request.n_computed + n))
                start = stop
                continue
            score_prompt(request, n, logits[start:stop])
            if request.n_drafted_in(n) < 0:
                choice.outcomes.append(Outcome(request, n, []))
            else:
                choice.add(request, n, logits[stop - request.n_drafted_in(n) - 1 : stop])
                for follower in request.followers:  # nothing is drafted before these have their own text
                    choice.add(follower, n, logits[stop - 1 : stop])
            start = stop
        return choice.made()

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
            segments.append(Segment(pending, request.n_computed, request.table, request.n_scored_in(n)))
        return self.forward_segments(self.model, self.cache, segments)

    @torch.inference_mode()
    def forward_segments(self, model: NanoLM, cache: PagedKVCache, segments: Sequence[Segment]) -> tuple[Tensor, float]:
        """Run a model over segments; return the logits that they ask for, (rows, V), and the seconds it took."""
        here = cache.pools[0].device == self.cache.pools[0].device  # a draft may be elsewhere
        batch = VarlenBatch(cache, segments, not self.fast, self._tables if self.fast and here else None)
        started = self.clock()
        logits = model(batch.tokens, batch, batch.scored)[0]
        if logits.device.type == "cuda":
            torch.cuda.synchronize()
        return logits, self.clock() - started


def _check(draft: NanoLM | str | None, model: NanoLM, gamma: int) -> None:
    if isinstance(draft, NanoLM):
        check_draft(draft.config.vocab_size, model.config.vocab_size, gamma)
    elif draft not in (None, "prompt-lookup"):
        raise ValueError(f"draft is {draft!r}; it must be a model, 'prompt-lookup' or None")
    require_whole(1, gamma=gamma)
