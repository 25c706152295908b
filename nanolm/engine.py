"""The serving engine: many requests, one model, one pool of blocks; every pass serves whoever has something to run.

`Engine.step` is the whole idea: plan a pass, run it, give every request its tokens. What a request gets does not depend
on who else is served: the same tokens come out as from `NanoLM.generate` alone, up to rounding in the sums.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ._require import require_count
from .dice import Dice, draw_rows
from .drafts import ModelDraft, PromptLookupDraft
from .metrics import EngineMetrics, RequestMetrics, StepRecord, summary
from .model import NanoLM, check_prompts
from .packed import Span, pack, packed_forward
from .paged_cache import HostBlocks, Int8PagedKVCache, PagedKVCache
from .paging import BlockAllocator, blocks_for
from .prefix import RadixCache
from .request import Output, Request
from .sampling import Sampling
from .scheduler import Plan, Scheduler, Work
from .speculative import check_draft, verify_draft

_CACHES = {"float": PagedKVCache, "int8": Int8PagedKVCache}
_MANY_RECORDS = 100_000


class Engine:
    """Serves requests with one model.

    Args:
        model: stays the caller's; the engine only reads it.
        cache_bytes: memory for keys and values; n_blocks, if given, says it in blocks.
        block_size: positions a block.
        max_running: most requests served at a time.
        max_tokens_per_step: most tokens a pass; longer prompts run in chunks.
        prefix_cache: whether equal beginnings of prompts are computed once.
        host_blocks: blocks of CPU memory for what the prefix cache has to evict.
        cache_kind: "float", in the model's own number type, or "int8".
        draft: guesses ahead for every request: a smaller model of the same vocabulary, or "prompt lookup".
        gamma: tokens to guess a pass.
        clock: returns seconds; for tests.

    Attributes:
        scheduler, cache: the books and the tensors.
        records: a StepRecord for each of the last 100,000 passes.

    Raises:
        ValueError: a size below 1, an unknown kind of cache, or a draft of another vocabulary.
    """

    def __init__(
        self,
        model: NanoLM,
        *,
        cache_bytes: int = 2**28,
        n_blocks: int | None = None,
        block_size: int = 16,
        max_running: int = 32,
        max_tokens_per_step: int = 512,
        prefix_cache: bool = True,
        host_blocks: int = 0,
        cache_kind: str = "float",
        draft: NanoLM | str | None = None,
        gamma: int = 4,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if cache_kind not in _CACHES:
            raise ValueError(f"cache_kind is {cache_kind!r}; it must be one of {', '.join(map(repr, _CACHES))}")
        _check_draft(draft, model, gamma)
        self.model, self.draft, self.gamma, self.clock = model, draft, gamma, clock
        dtype = next(model.parameters()).dtype
        make = _CACHES[cache_kind]
        if n_blocks is None:
            require_count(1, cache_bytes=cache_bytes)
            n_blocks = max(1, cache_bytes // make(model.config, 1, block_size, dtype).block_bytes)
        self.cache: PagedKVCache = make(model.config, n_blocks, block_size, dtype, model.device)
        allocator = BlockAllocator(n_blocks)
        host = HostBlocks(self.cache, host_blocks) if host_blocks else None
        prefix = RadixCache(allocator, block_size, host) if prefix_cache else None
        self.scheduler = Scheduler(allocator, block_size, max_running, max_tokens_per_step, prefix)
        self.records: deque[StepRecord] = deque(maxlen=_MANY_RECORDS)
        self._requests: dict[int, Request] = {}
        self._ids = itertools.count()
        self._copies: list[tuple[int, int]] = []

    @property
    def has_work(self) -> bool:
        """Whether any request is waiting or running."""
        return bool(self._requests)

    @property
    def metrics(self) -> EngineMetrics:
        """The passes so far, summed up."""
        prefix = self.scheduler.prefix
        return summary(self.records, self.scheduler.max_running, prefix.statistics.hit_rate if prefix else 0.0)

    def request(self, request_id: int) -> Request:
        """Return a request that has not ended; for looking.

        Raises:
            ValueError: there is none of this number, or it has ended.
        """
        if request_id not in self._requests:
            raise ValueError(f"request_id is {request_id}; no such request is waiting or running")
        return self._requests[request_id]

    def add_request(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        sampling: Sampling | None = None,
        seed: int | None = None,
        stop: Callable[[list[int]], bool] | None = None,
    ) -> int:
        """Take a request; return its number. Nothing runs before the next `step`.

        Args:
            prompt: token ids, at least one.
            max_new_tokens: most tokens to write, at least one.
            sampling: temperature, top-k, top-p and end tokens; None means greedy.
            seed: of the request's own randomness; with the same seed it writes the same text in any company.
            stop: called with the new tokens so far after each; True ends the request.

        Raises:
            ValueError: an empty prompt, a token outside the vocabulary, max_new_tokens below 1, or a text that is
                longer than the context or than the whole pool. No other request is touched by that.
        """
        require_count(1, max_new_tokens=max_new_tokens)
        check_prompts([prompt], max_new_tokens, self.model.config)
        size, n_blocks = self.scheduler.block_size, self.scheduler.allocator.n_blocks
        # The last token is written and never run, so it needs no place in the cache.
        if blocks_for(len(prompt) + max_new_tokens - 1, size) > n_blocks:
            raise ValueError(
                f"prompt has {len(prompt)} tokens and max_new_tokens is {max_new_tokens}; the whole pool has room for "
                f"{n_blocks * size} positions, {n_blocks} blocks of {size}"
            )
        sampling = sampling or Sampling(temperature=0.0)
        request = Request(
            tokens=list(prompt),
            id=next(self._ids),
            n_prompt=len(prompt),
            max_new_tokens=max_new_tokens,
            sampling=sampling,
            dice=Dice(seed),
            end_tokens=self.model.config.eos_token_ids if sampling.end_tokens is None else sampling.end_tokens,
            metrics=RequestMetrics(self.clock()),
            stop=stop,
            draft_source=self._draft_source(sampling, len(prompt) + max_new_tokens),
        )
        self.scheduler.add(request)
        self._requests[request.id] = request
        return request.id

    def fork(self, request_id: int, seed: int | None = None) -> int:
        """Let a second request run on from where a running one is, with dice of its own; return its number.

        Both hold the same blocks until they write into them.

        Raises:
            ValueError: no such request, or it is not running, or no more may run.
        """
        original = self.request(request_id)
        twin = Request(
            tokens=list(original.tokens),
            id=next(self._ids),
            n_prompt=original.n_prompt,
            max_new_tokens=original.max_new_tokens,
            sampling=original.sampling,
            dice=Dice(seed),
            end_tokens=original.end_tokens,
            metrics=RequestMetrics(self.clock(), admitted_at=self.clock()),
            stop=original.stop,
            draft_source=self._draft_source(original.sampling, original.n_prompt + original.max_new_tokens),
        )
        self.scheduler.fork(original, twin)
        self._requests[twin.id] = twin
        return twin.id

    def abort(self, request_id: int) -> None:
        """Call a request off, waiting or running. One that has ended already is left alone."""
        if request_id in self._requests:
            self._finish(self._requests[request_id], "abort")

    def step(self) -> list[Output]:
        """Run one pass; return what it brought each request that got tokens or ended. Empty when there is no work."""
        started = self.clock()
        self._guess()
        plan = self.scheduler.schedule()
        for request in plan.admitted:
            if request.metrics.admitted_at is None:
                request.metrics.admitted_at = started
        if not plan.work:
            return []
        self._copies += plan.copies
        try:
            # Made before anything is written, so that after a pass that failed here they can be made again.
            self.cache.copy_blocks(self._copies)
            self._copies = []
            logits, model_seconds = self._run(plan.work)
        except BaseException:
            for job, _ in plan.work:  # nothing was computed: the same pass can be tried again
                self.scheduler.complete(job, job.n_computed)
            raise
        record = self._record(plan, started, model_seconds)
        outputs = self._give_tokens(plan.work, logits)
        n_new_tokens = sum(len(output.tokens) for output in outputs)
        self.records.append(replace(record, seconds=self.clock() - started, n_new_tokens=n_new_tokens))
        return outputs

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int | Sequence[int],
        sampling: Sampling | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[list[int]]:
        """Return the new tokens of every prompt, in order.

        Args:
            max_new_tokens: one number for all, or one a prompt.
            seeds: one a prompt; None means unseeded.

        Raises:
            ValueError: what `add_request` refuses, before anything runs; numbers that are not one a prompt; a prompt's
                scores that are no numbers.
        """
        limits = [max_new_tokens] * len(prompts) if isinstance(max_new_tokens, int) else max_new_tokens
        seeds = [None] * len(prompts) if seeds is None else seeds
        for name, given in (("max_new_tokens", limits), ("seeds", seeds)):
            if len(given) != len(prompts):
                raise ValueError(f"{name} has {len(given)} entries; there are {len(prompts)} prompts, one for each")
        requests: list[Request] = []
        try:
            for prompt, limit, seed in zip(prompts, limits, seeds, strict=True):
                requests.append(self.request(self.add_request(prompt, limit, sampling, seed)))
            while any(request.finish_reason is None for request in requests):
                self.step()
                for request in requests:
                    request.raise_error()
        finally:
            for request in requests:
                self.abort(request.id)
        return [request.new_tokens for request in requests]

    def stream(
        self, prompt: Sequence[int], max_new_tokens: int, sampling: Sampling | None = None, seed: int | None = None
    ) -> Iterator[int]:
        """Yield a request's tokens as they come, and serve the others meanwhile; leaving the loop calls it off.

        Raises:
            ValueError: what `add_request` refuses; scores that are no numbers.
        """
        request, at = self.request(self.add_request(prompt, max_new_tokens, sampling, seed)), len(prompt)
        try:
            while True:
                while at < len(request.tokens):  # several, where another's steps have served this request too
                    yield request.tokens[at]
                    at += 1
                request.raise_error()
                if request.finish_reason is not None:
                    return
                self.step()
        finally:
            self.abort(request.id)

    def _draft_source(self, sampling: Sampling, capacity: int) -> ModelDraft | PromptLookupDraft | None:
        if isinstance(self.draft, NanoLM):
            return ModelDraft(self.draft, sampling, capacity)
        return PromptLookupDraft(self.model.config.vocab_size) if self.draft is not None else None

    def _guess(self) -> None:
        """Let each request that writes have its next tokens guessed, as many as fit into the pass beside the others."""
        if self.draft is None:
            return
        writing = [request for request in self.scheduler.running if request.is_decoding]
        room = self.scheduler.max_tokens_per_step - len(writing)
        for request in writing:
            source, gamma = request.draft_source, min(self.gamma, request.n_left - 1, room)
            request.draft = []
            if source is None or gamma < 1:
                continue
            # It may have read guesses that were refused, or that have never been run: a pass failed, blocks were lost.
            source.truncate(min(request.n_computed, source.length))
            request.draft, request.draft_probs = source.propose(request.tokens, gamma, request.dice)
            room -= len(request.draft)

    def _run(self, work: list[Work]) -> tuple[Tensor, float]:
        """Run a pass; return the scores, a row for each scored token, and the seconds that the model took."""
        spans = []
        for request, n in work:
            pending = [*request.tokens[request.n_computed :], *request.draft][:n]
            at_end = request.n_computed + n - len(request.tokens)  # guessed tokens in this pass; below 0: a chunk
            # The end of a chunk is scored too, only to see that it has scores: no NaN may get into the prefix cache.
            spans.append(Span(pending, request.n_computed, request.table.blocks, max(1, at_end + 1)))
        batch = pack(spans, self.cache.block_size, self.model.device, self.cache.dtype)
        started = self.clock()
        logits = packed_forward(self.model, batch, self.cache)
        if logits.device.type == "cuda":
            torch.cuda.synchronize()
        return logits, self.clock() - started

    def _give_tokens(self, work: list[Work], logits: Tensor) -> list[Output]:
        """Choose the tokens of every request whose pending tokens have all run, and count what is in the cache now."""
        outputs, row, plain = [], 0, []
        finite = torch.isfinite(logits.amax(-1)).tolist()  # a row of -inf only, a NaN or an infinity: no finite largest
        for request, n in work:
            n_guessed = request.n_computed + n - len(request.tokens)  # below 0: a chunk
            rows = range(row, row + max(1, n_guessed + 1))
            row = rows.stop
            if not all(finite[r] for r in rows):
                outputs += self._judge(request, n, n_guessed)
            elif n_guessed < 0:
                self.scheduler.complete(request, request.n_computed + n)
            elif n_guessed == 0:
                plain.append((request, rows[0]))
            else:
                outputs.append(self._verify(request, n_guessed, logits[rows.start : rows.stop]))
        tokens = _choose([request for request, _ in plain], logits, [r for _, r in plain])
        return outputs + [self._write(request, [token]) for (request, _), token in zip(plain, tokens, strict=True)]

    def _verify(self, request: Request, n_guessed: int, logits: Tensor) -> Output:
        probs = request.sampling.probs(logits.to("cpu", torch.float64))
        new = verify_draft(probs, request.draft_probs[:n_guessed], request.draft[:n_guessed], request.dice)
        return self._write(request, new)

    def _write(self, request: Request, new: Sequence[int]) -> Output:
        """Add new tokens to the text; all but the last of them, which no pass has read, are in the cache already."""
        try:
            added = request.write(new, self.clock())
        except Exception as error:  # its stop condition is the caller's code; it must not take the others down
            return self._fail(request, f"the stop condition raised {error!r}; the request was ended")
        self.scheduler.complete(request, len(request.tokens) - 1)
        if request.finish_reason is None:
            return Output(request.id, added)
        self._finish(request, request.finish_reason)
        return Output(request.id, added, request.finish_reason, metrics=request.metrics)

    def _judge(self, request: Request, n: int, n_guessed: int) -> list[Output]:
        """End a request whose scores are no numbers; if a guess may be to blame, run it again without guesses."""
        if n_guessed > 0:
            self._clean_blocks(request)
            self.scheduler.preempt(request)
            request.draft_source = None
            return []
        n_read = request.n_computed + n
        return [self._fail(request, f"the scores after token {n_read} hold NaN or infinity; the request was ended")]

    def _clean_blocks(self, request: Request) -> None:
        """Put zeros into the blocks that nobody else holds, before the next one gets them."""
        references = self.scheduler.allocator.references
        self.cache.clear_blocks([block for block in request.table.blocks if references(block) == 1])

    def _fail(self, request: Request, why: str) -> Output:
        """End a request that cannot go on."""
        self._clean_blocks(request)
        request.error = why
        self._finish(request, "error")
        return Output(request.id, [], "error", why, request.metrics)

    def _finish(self, request: Request, reason: str) -> None:
        request.finish_reason = reason
        request.metrics.finished_at = self.clock()
        request.metrics.n_prefix_tokens, request.metrics.n_preemptions = request.n_prefix_tokens, request.n_preemptions
        self.scheduler.remove(request)
        del self._requests[request.id]

    def _record(self, plan: Plan, started: float, model_seconds: float) -> StepRecord:
        """Return the record of a pass as things stand when it has run, before requests end and give blocks back."""
        scheduler = self.scheduler
        n_prefill = sum(n for job, n in plan.work if not job.is_decoding)
        return StepRecord(
            at=started,
            seconds=0.0,
            model_seconds=model_seconds,
            n_prefill_tokens=n_prefill,
            n_decode_tokens=sum(n for _, n in plan.work) - n_prefill,
            n_new_tokens=0,
            n_running=len(scheduler.running),
            n_waiting=len(scheduler.waiting),
            n_blocks_used=scheduler.allocator.n_used,
            n_blocks_cached=scheduler.prefix.n_blocks if scheduler.prefix else 0,
            n_preempted=len(plan.preempted),
        )


def _choose(requests: list[Request], logits: Tensor, rows: list[int]) -> list[int]:
    """Return one token a request, each by its own rules and dice; requests with equal rules are done together."""
    tokens = dict.fromkeys(range(len(requests)), 0)
    groups: dict[Sampling, list[int]] = {}
    for i, request in enumerate(requests):
        groups.setdefault(request.sampling, []).append(i)
    for sampling, members in groups.items():
        mine = logits[[rows[i] for i in members]]  # (members, V)
        if sampling.temperature == 0:
            drawn = mine.max(-1).indices.tolist()  # the first among equals
        else:
            drawn = draw_rows(sampling.probs(mine).cpu(), [requests[i].dice for i in members])
        tokens.update(zip(members, drawn, strict=True))
    return list(tokens.values())


def _check_draft(draft: NanoLM | str | None, model: NanoLM, gamma: int) -> None:
    if isinstance(draft, NanoLM):
        check_draft(draft.config.vocab_size, model.config.vocab_size, gamma)
    elif draft not in (None, "prompt lookup"):
        raise ValueError(f"draft is {draft!r}; it must be a model, 'prompt lookup' or None")
    require_count(1, gamma=gamma)
