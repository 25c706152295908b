"""The serving engine: many requests, one model, one pool of blocks; every pass serves whoever has something to run.

`Engine.step` is the whole idea: schedule a pass, run it, give every request its tokens. What a request gets does not
depend on who else is served: the same tokens come out as from `NanoLM.generate` alone, up to rounding in the sums.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .._require import require_share, require_whole
from ..cache.kinds import CacheKind
from ..model.decoder import NanoLM
from ..paging.counted_radix_cache import CountedRadixCache
from ..paging.host_blocks import HostBlocks
from ..paging.paged_cache import PagedKVCache
from ..paging.watched import WatchedAllocator
from ..window.grouped_cache import grouped_paged_cache
from ..window.layer_groups import LayerGroups
from .blocking import BlockingCalls
from .metrics import EngineMetrics, StepRecord, summary
from .model_runner import ModelRunner
from .plain_runner import PlainRunner
from .postprocess import Observer, Postprocessor
from .request import Output, Request
from .scheduler import Plan, Scheduler
from .token_choice import Outcome

_MANY_RECORDS = 100_000


class Engine(BlockingCalls):
    """Serves requests with one model.

    Args:
        model: stays the caller's; the engine only reads it.
        cache_bytes: memory for keys and values; n_blocks, if given, says it in blocks.
        block_size: positions a block.
        max_running: most requests served at a time.
        max_tokens_per_step: most tokens a pass; longer prompts run in chunks.
        prefix_cache: whether equal beginnings of prompts are computed once.
        host_blocks: blocks of CPU memory for what the prefix cache has to evict.
        cache_kind: "float", the model's own dtype; "int8" or "float8", a byte a number.
        draft: proposes tokens for every request: a smaller model of the same vocabulary, or "prompt-lookup". A
            model's keys and values lie in the same blocks, and cache_bytes is for both.
        gamma: most tokens to draft for a request and pass.
        adaptive: draft fewer, or none, where measured times and acceptance say that it does not pay; False always
            drafts gamma.
        reserve: share of the blocks that newcomers leave free for the answers of those who run, 0 to below 1.
        max_overtakes: how many short requests may go before one that waits (`admission`); 0: first come, first served.
        windows: for each layer the positions that its queries see, None for all of them; as `HybridKVCache`. Left out,
            they are those of the model's configuration. Blocks behind a window are given back. There is no prefix
            cache then, nor a draft model; "prompt-lookup" goes.
        plain: compute with the functions that the lessons teach alone, request by request: slower, and the same.
        clock: returns seconds; for tests.

    Attributes:
        scheduler, cache, runner: the books, the tensors, and what computes.
        records: a StepRecord for each of the last 100,000 passes.
        observer: is told of every pass; None, at first: nobody looks, and nothing is done for it.

    Raises:
        ValueError: a size below 1, a kind of cache that the model has no blocks for, a draft of another vocabulary.
    """

    def __init__(
        self,
        model: NanoLM,
        *,
        cache_bytes: int = 1 << 28,
        n_blocks: int | None = None,
        block_size: int = 16,
        max_running: int = 32,
        max_tokens_per_step: int = 512,
        prefix_cache: bool = True,
        host_blocks: int = 0,
        cache_kind: CacheKind = "float",
        draft: NanoLM | str | None = None,
        gamma: int = 4,
        adaptive: bool = True,
        reserve: float = 0.25,
        max_overtakes: int = 4,
        windows: Sequence[int | None] | None = None,
        plain: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        require_whole(1, cache_bytes=cache_bytes)
        require_whole(0, host_blocks=host_blocks)
        require_share(reserve=reserve)
        windows = windows if windows is not None else model.config.windows or None
        groups = None if windows is None else LayerGroups(windows)
        models = [(model, groups)]
        if isinstance(draft, NanoLM):
            models.append((draft, None))
            if draft.config.windows:
                raise ValueError("draft is a model with windows; its layers would see more than they have learned to")
        if groups is not None and len(models) > 1:
            raise ValueError("draft is a model, and windows are given: its layers have no groups; try 'prompt-lookup'")
        if n_blocks is None:
            of_a_block = sum(_new_pool(*each, 1, block_size, cache_kind).block_bytes for each in models)
            n_blocks = max(1, cache_bytes // of_a_block)
        self.model, self.clock = model, clock
        self.cache = _new_pool(model, groups, n_blocks, block_size, cache_kind)
        drafting = draft, gamma, adaptive, max_tokens_per_step, cache_kind
        self.runner = (PlainRunner if plain else ModelRunner)(model, self.cache, *drafting, clock)
        allocator = WatchedAllocator(n_blocks)
        has_prefix = prefix_cache and groups is None
        if host_blocks and not has_prefix:
            raise ValueError(f"host_blocks is {host_blocks}; without a prefix cache it must be 0: they keep its blocks")
        host = HostBlocks(self.cache, host_blocks) if host_blocks else None
        prefix = CountedRadixCache(allocator, block_size, host) if has_prefix else None
        rules = int(reserve * n_blocks), max_overtakes, groups
        scheduler = Scheduler(allocator, block_size, max_running, max_tokens_per_step, prefix, *rules)
        self.records: deque[StepRecord] = deque(maxlen=_MANY_RECORDS)
        self.observer: Observer | None = None
        self._requests: dict[int, Request] = {}
        self._postprocess = Postprocessor(self._requests, scheduler, self.runner, clock)
        self.scheduler = scheduler
        self._ids = itertools.count()
        self._undelivered: list[Output] = []

    @property
    def scheduler(self) -> Scheduler:
        """The books. Before any request has come, another scheduler over as many blocks may take their place."""
        return self._postprocess.scheduler

    @scheduler.setter
    def scheduler(self, scheduler: Scheduler) -> None:
        self._postprocess.scheduler = scheduler
        self.runner.drafts.watch(scheduler.allocator)

    @property
    def has_work(self) -> bool:
        """Whether any request is waiting or running, or has an output that `step` has not returned yet."""
        return bool(self._requests or self._undelivered)

    @property
    def metrics(self) -> EngineMetrics:
        """The passes so far, summed up."""
        prefix, control = self.scheduler.prefix, self.runner.control
        parts: dict[str, Any] = {}
        if prefix is not None:
            parts["hit_rate"] = prefix.statistics.hit_rate
        if control is not None:
            parts |= {"speculation_gain": control.gain, "is_speculating": control.is_on}
            parts["acceptance_rate"] = control.n_accepted / control.n_drafted if control.n_drafted else float("nan")
        return summary(self.records, self.scheduler.max_running, **parts)

    def request(self, request_id: int) -> Request:
        """Return a request that has not ended; for looking.

        Raises:
            ValueError: there is none of this number, or it has ended.
        """
        if request_id not in self._requests:
            raise ValueError(f"request_id is {request_id}; no such request is waiting or running")
        return self._requests[request_id]

    def abort(self, request_id: int) -> None:
        """Call a request off, waiting or running: nothing more comes of it. One that has ended is left alone."""
        if request_id in self._requests:
            self._undelivered = [output for output in self._undelivered if output.id != request_id]
            self._postprocess.finish(self._requests[request_id], "abort")

    def step(self) -> list[Output]:
        """Run one pass; return what it brought each request that got tokens or ended. Empty when there is no work.

        Outputs that came while `generate` or `stream` ran, for requests that are not theirs, are returned first.
        """
        outputs = self._pass() if self._requests else []
        held, self._undelivered = self._undelivered, []
        return held + outputs

    def _pass(self) -> list[Output]:
        started = self.clock()
        plan = self._schedule(started)
        if not plan.work:
            return []
        outcomes, model_seconds = self._run(plan)
        observer = self.observer
        if observer is not None:
            observer.ran(plan, outcomes)
        record = _record(outcomes, plan, self.scheduler, started, model_seconds)
        outputs = self._postprocess(outcomes)
        n_new_tokens = sum(len(output.tokens) for output in outputs)
        self.records.append(replace(record, seconds=self.clock() - started, n_new_tokens=n_new_tokens))
        if observer is not None:
            observer.passed(self.records[-1], outputs)
        return outputs

    def _schedule(self, now: float) -> Plan:
        """Plan drafts, and a pass over what is pending then; if that fails, whoever has places begins anew."""
        self.runner.plan(self.scheduler.running, self.scheduler.max_tokens_per_step)
        try:
            plan = self.scheduler.schedule()
        except BaseException:
            self.scheduler.cancel()
            raise
        for request in plan.admitted:
            request.metrics.admitted(now, request.n_computed)
        return plan

    def _run(self, plan: Plan) -> tuple[list[Outcome], float]:
        """Compute a pass; if that fails, leave everything as it was before, so that it can be tried again."""
        copied = False
        try:
            self.runner.copy_blocks(plan.copies)
            copied = True
            return self.runner.run(plan.work)
        except BaseException:
            if not copied:
                self.scheduler.cancel_copies(plan)
            self.scheduler.cancel(plan)
            raise


def _record(outcomes: list[Outcome], plan: Plan, scheduler: Scheduler, at: float, model_seconds: float) -> StepRecord:
    """Return the record of a pass as things stand when it has run, before requests end and give blocks back."""
    # As it was run, not as it was planned: a draft may have found fewer tokens than there was room for.
    work = [(request, n) for request, n, *_ in outcomes if request.leader is None]
    n_prefill = sum(n for request, n in work if not request.is_decoding)
    return StepRecord(
        at=at,
        seconds=0.0,
        model_seconds=model_seconds,
        n_prefill_tokens=n_prefill,
        n_decode_tokens=sum(n for _, n in work) - n_prefill,
        n_new_tokens=0,
        n_again_tokens=sum(request.n_again(n) for request, n in work),
        n_drafted_tokens=sum(max(0, request.n_drafted_in(n)) for request, n in work),
        n_running=len(scheduler.running),
        n_waiting=len(scheduler.waiting),
        n_blocks_used=scheduler.allocator.n_used,
        n_blocks_cached=scheduler.prefix.n_blocks if scheduler.prefix else 0,
        n_preempted=len(plan.preempted),
    )


def _new_pool(
    model: NanoLM, groups: LayerGroups | None, n_blocks: int, block_size: int, cache_kind: CacheKind
) -> PagedKVCache:
    if groups is None:
        return model.new_paged_cache(n_blocks, block_size, cache_kind)
    if type(model).new_paged_cache is not NanoLM.new_paged_cache:
        raise ValueError(f"windows are given, and a {type(model).__name__} has blocks of another kind: it takes none")
    return grouped_paged_cache(model.config, groups, n_blocks, block_size, cache_kind, model.dtype, model.device)
