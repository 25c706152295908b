"""The serving engine: many requests, one model, one pool of blocks; every pass serves whoever has something to run.

`Engine.step` is the whole idea: schedule a pass, run it, give every request its tokens. What a request gets does not
depend on who else is served: the same tokens come out as from `NanoLM.generate` alone, up to rounding in the sums.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from .._require import require_count
from ..cache.kinds import CacheKind
from ..model.decoder import NanoLM, check_prompts
from ..paging.blocks import BlockAllocator
from ..paging.host_blocks import HostBlocks
from ..paging.radix_cache import RadixCache
from ..sampling.params import SamplingParams
from ..sampling.rng import Rng
from .blocking import BlockingCalls
from .metrics import EngineMetrics, RequestMetrics, StepRecord, summary
from .model_runner import ModelRunner, Outcome
from .plain_runner import PlainRunner
from .postprocess import Postprocessor
from .request import Output, Request
from .scheduler import Plan, Scheduler

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
        draft: proposes tokens for every request: a smaller model of the same vocabulary, or "prompt-lookup".
        gamma: tokens to draft a pass.
        plain: compute with the functions that the lessons teach alone, request by request: slower, and the same.
        clock: returns seconds; for tests.

    Attributes:
        scheduler, cache, runner: the books, the tensors, and what computes.
        records: a StepRecord for each of the last 100,000 passes.

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
        plain: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if n_blocks is None:
            require_count(1, cache_bytes=cache_bytes)
            n_blocks = max(1, cache_bytes // model.new_paged_cache(1, block_size, cache_kind).block_bytes)
        self.model, self.clock = model, clock
        self.cache = model.new_paged_cache(n_blocks, block_size, cache_kind)
        self.runner = (PlainRunner if plain else ModelRunner)(model, self.cache, draft, gamma, cache_kind, clock)
        allocator = BlockAllocator(n_blocks)
        host = HostBlocks(self.cache, host_blocks) if host_blocks else None
        prefix = RadixCache(allocator, block_size, host) if prefix_cache else None
        scheduler = Scheduler(allocator, block_size, max_running, max_tokens_per_step, prefix)
        self.records: deque[StepRecord] = deque(maxlen=_MANY_RECORDS)
        self._requests: dict[int, Request] = {}
        self._postprocess = Postprocessor(self._requests, scheduler, self.cache, clock)
        self._ids = itertools.count()
        self._copies: list[tuple[int, int]] = []

    @property
    def scheduler(self) -> Scheduler:
        """The books. Before any request has come, another scheduler over as many blocks may take their place."""
        return self._postprocess.scheduler

    @scheduler.setter
    def scheduler(self, scheduler: Scheduler) -> None:
        self._postprocess.scheduler = scheduler

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
        sampling: SamplingParams | None = None,
        seed: int | None = None,
        stop: Callable[[list[int]], bool] | None = None,
    ) -> int:
        """Take a request; return its number. Nothing runs before the next `step`.

        Args:
            prompt: token ids, at least one.
            max_new_tokens: most tokens to write, at least one.
            sampling: temperature, top-k, top-p and end tokens; None means greedy.
            seed: of the request's own randomness; with the same seed it writes the same text in any batch.
            stop: called with the new tokens so far after each; True ends the request.

        Raises:
            ValueError: an empty prompt, a token outside the vocabulary, max_new_tokens below 1, or a text that is
                longer than the context or than the whole pool. No other request is touched by that.
        """
        require_count(1, max_new_tokens=max_new_tokens)
        check_prompts([prompt], max_new_tokens, self.model.config)
        sampling = sampling or SamplingParams(temperature=0.0)
        ends = sampling.ends(self.model.config.eos_token_ids)
        request = Request(list(prompt), len(prompt), max_new_tokens, sampling, ends, stop)
        self._enter(request, seed, self.scheduler.add)
        return request.id

    def fork(self, request_id: int, seed: int | None = None) -> int:
        """Let a second request run on from where a running one is, with an rng of its own; return its number.

        Both hold the same blocks until they write into them.

        Raises:
            ValueError: no such request, or it is not running, or no more may run.
        """
        original = self.request(request_id)
        twin = original.twin()
        self._enter(twin, seed, partial(self.scheduler.fork, original))
        twin.metrics.admitted_at = twin.metrics.arrived_at
        return twin.id

    def abort(self, request_id: int) -> None:
        """Call a request off, waiting or running. One that has ended already is left alone."""
        if request_id in self._requests:
            self._postprocess.finish(self._requests[request_id], "abort")

    def step(self) -> list[Output]:
        """Run one pass; return what it brought each request that got tokens or ended. Empty when there is no work."""
        started = self.clock()
        plan = self._schedule(started)
        if not plan.work:
            return []
        outcomes, model_seconds = self._run(plan)
        record = StepRecord.of(plan, self.scheduler, started, model_seconds)
        outputs = self._postprocess(outcomes)
        self.records.append(record.done(self.clock(), outputs))
        return outputs

    def _enter(self, request: Request, seed: int | None, schedule: Callable[[Request], None]) -> None:
        """Number a request and give it what is the engine's to give, if the scheduler takes it."""
        request.id, request.rng, request.metrics = next(self._ids), Rng(seed), RequestMetrics(self.clock())
        request.draft_source = self.runner.draft_source(request.sampling, request.n_prompt + request.max_new_tokens)
        schedule(request)
        self._requests[request.id] = request

    def _schedule(self, now: float) -> Plan:
        """Draft, and plan a pass over what is pending then."""
        self.runner.propose(self.scheduler.running, self.scheduler.max_tokens_per_step)
        plan = self.scheduler.schedule()
        for request in plan.admitted:
            if request.metrics.admitted_at is None:
                request.metrics.admitted_at = now
        return plan

    def _run(self, plan: Plan) -> tuple[list[Outcome], float]:
        """Compute a pass; if that fails, leave everything as it was before, so that it can be tried again."""
        self._copies += plan.copies
        try:
            # Made before anything is written, so that after a pass that failed here they can be made again.
            self.cache.copy_blocks(self._copies)
            self._copies = []
            return self.runner.run(plan.work)
        except BaseException:
            for request, _ in plan.work:
                self.scheduler.complete(request, request.n_computed)
            raise
