"""Where an engine's drafted tokens come from: a smaller model, for all requests of a pass at once, or their own texts.

A draft is planned first and made later: the scheduler has to know how many tokens a request will run before there are
places for their keys and values, and a model can draft only once there are. So `plan` puts TO_DRAFT into
`request.draft`, the scheduler makes room (or takes the draft away again), and `propose` fills the places in.

A draft model's keys and values lie in the engine's own blocks: a second set of tensors under the same block tables. So
one budget of memory is for both, and what shares, copies, preempts and evicts blocks does so for both.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import torch
from torch import Tensor

from ..cache.kinds import CacheKind
from ..grammar.constraint import mask_logits
from ..model.decoder import NanoLM
from ..paging.blocks import BlockAllocator
from ..paging.watched import WatchedAllocator
from ..sampling.adjust import adjust_rows
from ..sampling.rows import sample_rows
from ..speculative.adaptive import AdaptiveGamma
from ..speculative.ngram_index import NgramIndex
from ..varlen.paged_rows import Segment
from .request import TO_DRAFT, Request
from .scheduler import Work

# The streams of a request's random numbers. A token and the guess of it share one where there is a seed.
TOKENS, DRAFTS, VERIFICATION = 0, 1, 2


class NoDrafts:
    """Drafts nothing; what the other two have in common."""

    def plan(self, decoding: Sequence[Request], room: int) -> None:
        """Let requests that decode have a draft, all of them together at most `room` tokens."""

    def propose(self, work: Sequence[Work]) -> list[Work]:
        """Fill the drafts in that a planned pass has places for; return the pass, less what could not be drafted."""
        return list(work)

    def copy_blocks(self, copies: list[tuple[int, int]]) -> None:
        """Copy what the draft keeps in blocks, (from, to)."""

    def clear_blocks(self, blocks: list[int]) -> None:
        """Fill with zeros what the draft keeps in blocks."""

    def watch(self, allocator: BlockAllocator) -> None:
        """Learn whose blocks they are."""


class LookupDrafts(NoDrafts):
    """Drafts what followed in the text itself when it last went like this (`prompt_lookup`)."""

    def __init__(self, control: AdaptiveGamma, clock: Callable[[], float]) -> None:
        self.control, self.clock = control, clock

    def plan(self, decoding: Sequence[Request], room: int) -> None:
        """As NoDrafts.plan; the tokens are there at once, and looking for them is counted as drafting."""
        most, started = self.control.gamma(len(decoding)), self.clock()
        self._plan(decoding, room, most)
        if most and decoding:
            self.control.time_draft(len(decoding), (self.clock() - started) / most)

    def _plan(self, decoding: Sequence[Request], room: int, most: int) -> None:
        for request in decoding:
            wished = min(most, request.n_left - 1, room)
            request.draft = self.look_up(request, wished) if request.may_draft and wished > 0 else []
            request.draft_wish = max(0, wished)
            room -= len(request.draft)

    def look_up(self, request: Request, n: int) -> list[int]:
        """Return up to n tokens that followed before: `prompt_lookup` by an index that grows with the text."""
        if request.lookup is None:
            request.lookup = NgramIndex()
        request.lookup.extend(request.tokens[len(request.lookup) :])
        return request.lookup.propose(n)


class ModelDrafts(NoDrafts):
    """Drafts with a smaller model.

    Args:
        model: of the target's vocabulary; its context may be shorter, then it stops drafting there.
        n_blocks, block_size, cache_kind: as the engine's cache.
        max_tokens: most tokens that it reads in one pass to catch up with the texts.
        forward: runs a model over segments whose keys and values lie in a cache; returns logits and seconds.
        clock: returns seconds.
    """

    def __init__(
        self,
        model: NanoLM,
        n_blocks: int,
        block_size: int,
        cache_kind: CacheKind,
        control: AdaptiveGamma,
        max_tokens: int,
        forward: Callable[..., tuple[Tensor, float]],
        clock: Callable[[], float],
    ) -> None:
        self.model, self.control, self.max_tokens = model, control, max_tokens
        self.forward, self.clock = forward, clock
        self.cache = model.new_paged_cache(n_blocks, block_size, cache_kind)
        self.block_size = block_size
        self._ready: set[int] | None = None  # full blocks whose keys and values are the draft's too
        self._poisoned: set[int] = set()

    def watch(self, allocator: BlockAllocator) -> None:
        """Forget what a block holds as soon as somebody else gets it; without a watched allocator nothing is known."""
        self._ready = None
        if isinstance(allocator, WatchedAllocator):
            self._ready = set()
            allocator.on_allocate.append(self._renew)

    def plan(self, decoding: Sequence[Request], room: int) -> None:
        """As NoDrafts.plan; a request whose text the draft has not caught up with gets none yet."""
        most, left = self.control.gamma(len(decoding)), self.max_tokens
        for request in decoding:
            self._skip_ready(request)
            behind = len(request.tokens) - request.n_draft_computed
            in_context = self.model.config.max_positions - len(request.tokens)
            n = min(most, request.n_left - 1, room, in_context)
            request.draft_wish = max(0, n)
            if n < 1 or not request.may_draft or behind > left:
                request.draft = []
                continue
            request.draft = [TO_DRAFT] * n
            left, room = left - behind, room - n

    def propose(self, work: Sequence[Work]) -> list[Work]:
        """As NoDrafts.propose; every request's new tokens are read too, so that the draft keeps up with the texts."""
        wanted = {request: max(0, request.n_drafted_in(n)) for request, n in work}
        drafting = [request for request in wanted if wanted[request]]
        if not drafting and not self.control.is_on:
            return list(work)
        for request in drafting:
            request.draft, request.draft_probs = [], None
        started, segments = self.clock(), self._unread(work, wanted)
        is_typical = all(len(segment.tokens) < 3 for segment in segments.values())  # nobody has much to catch up with
        while segments:
            segments = self._next(segments, wanted)
        if drafting and is_typical:
            self.control.time_draft(len(drafting), (self.clock() - started) / max(wanted.values()))
        return [Work(request, n - max(0, wanted[request] - len(request.draft))) for request, n in work]

    def copy_blocks(self, copies: list[tuple[int, int]]) -> None:
        """As NoDrafts.copy_blocks."""
        self.cache.copy_blocks(copies)

    def clear_blocks(self, blocks: list[int]) -> None:
        """As NoDrafts.clear_blocks."""
        self.cache.clear_blocks(blocks)

    def _unread(self, work: Sequence[Work], n_wanted: dict[Request, int]) -> dict[Request, Segment]:
        """Return what the draft has to read of each text first; those that will draft before those that keep up."""
        segments, left = {}, self.max_tokens
        for request, n in sorted(work, key=lambda item: not n_wanted[item.request]):
            self._skip_ready(request)
            end = min(request.n_computed + n, len(request.tokens), self.model.config.max_positions)
            tokens = request.tokens[request.n_draft_computed : end]
            if not n_wanted[request]:
                tokens = tokens[:left] if request.may_draft else []
            if tokens:
                segments[request] = Segment(tokens, request.n_draft_computed, request.table, min(1, n_wanted[request]))
                left = max(0, left - len(tokens))
        return segments

    def _next(self, segments: dict[Request, Segment], wanted: dict[Request, int]) -> dict[Request, Segment]:
        """Read segments and draw a token behind each that asks for one; return what is to be read next."""
        logits, _ = self.forward(self.model, self.cache, list(segments.values()))
        for request, segment in segments.items():
            request.n_draft_computed = segment.past + len(segment.tokens)
            self._note_ready(request)
        going = self._draw([request for request in segments if segments[request].n_scored], logits)
        return {
            request: Segment([request.draft[-1]], len(request.tokens) + len(request.draft) - 1, request.table, 1)
            for request in going
            if len(request.draft) < wanted[request]
        }

    def _draw(self, going: list[Request], logits: Tensor) -> list[Request]:
        """Draw the next drafted token of each request from its row of logits; return those that can go on."""
        finite, adjusted = torch.isfinite(logits.amax(-1)).tolist(), {}
        for row, request in enumerate(going):
            with suppress(ValueError):  # rules that leave no token are told by the target
                if finite[row]:
                    adjusted[request] = adjust_request(request, logits[row, None], [], request.draft)
                    continue
            request.may_draft, request.n_draft_computed = False, 0  # drafts are a favour: it goes on without
            if not finite[row]:
                self._poisoned.update(request.table.blocks)
        going = list(adjusted)
        if not going:
            return []
        streams = [TOKENS if request.has_seed else DRAFTS for request in going]
        rng = [r.rng.at(r.n_drawn + len(r.draft), stream) for r, stream in zip(going, streams, strict=True)]
        rows = torch.cat(list(adjusted.values()))
        drawn, probs = sample_rows(rows, [request.sampling for request in going], rng)
        for request, token, q in zip(going, drawn, probs, strict=True):
            request.draft.append(token)
            if needs_verification(request) and q is not None:
                before = request.draft_probs
                request.draft_probs = q[None] if before is None else torch.cat([before, q[None]])
        return going

    def _renew(self, block: int) -> None:
        if self._ready is not None:
            self._ready.discard(block)
        if block in self._poisoned:  # a mask multiplies by 0, and 0 · NaN is NaN
            self._poisoned.remove(block)
            self.clear_blocks([block])

    def _skip_ready(self, request: Request) -> None:
        """Count what the draft finds in blocks that the request was given full: a cached prefix."""
        at, blocks = request.n_draft_computed // self.block_size, request.table.blocks
        while self._ready and (at + 1) * self.block_size <= request.n_computed and blocks[at] in self._ready:
            at += 1
        request.n_draft_computed = max(request.n_draft_computed, at * self.block_size)

    def _note_ready(self, request: Request) -> None:
        if self._ready is not None:
            full = min(request.n_draft_computed, len(request.tokens)) // self.block_size
            for block in reversed(request.table.blocks[:full]):
                if block in self._ready:
                    break
                self._ready.add(block)


def needs_verification(request: Request) -> bool:
    """Whether `verify_draft` verifies the draft; at temperature 0 or with a seed the target's own token is known."""
    return request.sampling.temperature > 0 and not request.has_seed


def adjust_request(request: Request, logits: Tensor, drafted: Sequence[int], already: Sequence[int] = ()) -> Tensor:
    """Return rows of logits, (n, V), as the request's grammar and then its rules change them.

    Args:
        drafted: the first i of them stand before row i, behind the text.
        already: tokens that stand before every row, behind the text and before `drafted`.
    """
    if request.constraint is not None:
        allowed = request.constraint.allowed(request.new_tokens, [*already, *drafted[: len(logits) - 1]])
        logits = mask_logits(logits, allowed[len(already) :])
    if not request.sampling.adjusts:
        return logits
    text = [*request.tokens, *already]
    return adjust_rows(logits, request.sampling, text, request.n_prompt, request.end_tokens, drafted)
