"""A model, a trace and the engines that serve it, in the process of a worker, with whatever parts were assembled."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

from nanolm.cache import CacheKind
from nanolm.checkpoint import load as load_model
from nanolm.engine import Engine
from nanolm.engine.plain_runner import plain_model
from nanolm.model import NanoLM, quantize_model
from nanolm.sampling import Rng, SamplingParams
from nanolm.workload import all_at_once, replay_engine

from .machine import Clock, products_of
from .settings import BLOCK_SIZE, DRAFTS, POSITIONS, Choices, Load

_CONTROL_EVERY = 8  # passes


def cache_bytes_of(load: Load, model: NanoLM, trace: Sequence[Any]) -> int:
    """Return the memory for keys and values: what was asked for, or POSITIONS of the model's own numbers."""
    if load.cache_bytes is not None:
        return load.cache_bytes
    most = max(arrival.n_tokens for arrival in trace)
    n_blocks = -(-max(POSITIONS, most) // BLOCK_SIZE)
    return n_blocks * model.new_paged_cache(1, BLOCK_SIZE).block_bytes


def _controlled(
    step: Callable[[], Any], control: Callable[[], object], clock: Clock
) -> tuple[Callable[[], Any], list[float]]:
    """Return the passes, with a control before every eighth, off the clock; and the list of its seconds."""
    seconds: list[float] = []
    passes = itertools.count()

    def controlled() -> Any:
        if next(passes) % _CONTROL_EVERY == 0:
            seconds.append(clock.aside(control))
        return step()

    return controlled, seconds


class Service:
    """Serves a load: by the clock, and to compare texts; `tight` has one more way.

    Attributes:
        trace: the requests, at their rate.
        cache_bytes: memory for keys and values.
    """

    def __init__(self, load: Load, choices: Choices) -> None:
        self.load, self.choices, self.trace = load, choices, load.arriving()
        self.model, _ = load_model(load.model)
        self.config = self.model.config
        self.cache_bytes = cache_bytes_of(load, self.model, self.trace)
        if choices.weight_bits == 8:
            self.model = quantize_model(self.model, 8, None)
        self.draft = {"none": None, "prompt-lookup": "prompt-lookup"}.get(choices.draft, choices.draft)
        if choices.draft not in DRAFTS:
            self.draft, _ = load_model(choices.draft)
        self.sampling = SamplingParams(load.temperature, load.top_k, load.top_p, end_tokens=())
        self.checked = self.trace[: load.n_checked]

    def engine(self, **changes: Any) -> Engine:
        """Return an engine as chosen, but for the changes."""
        options = {
            "cache_bytes": self.cache_bytes,
            "block_size": BLOCK_SIZE,
            "max_running": self.choices.slots,
            "max_tokens_per_step": self.choices.max_tokens_per_step,
            "prefix_cache": self.choices.prefix_cache,
            "cache_kind": self.choices.cache_kind,
            "reserve": self.choices.reserve,
            "draft": self.draft,
        }
        return Engine(self.model, **options | changes)

    def timed(self) -> dict[str, Any]:
        """Replay the load by the clock; return times, of every request, and what became of the cache."""
        replay_engine("warm up", self.engine(), all_at_once(self.trace[:2]), sampling=self.sampling)
        clock = Clock(self.load.threads)
        engine, control = self.engine(clock=clock), products_of(self._floats())
        engine.step, control_seconds = _controlled(engine.step, control, clock)
        done = replay_engine("timed", engine, self.trace, sampling=self.sampling, sleep=clock.sleep)
        waits = any(request.inter_token_seconds for request in done.requests)
        metrics, prefix = engine.metrics, engine.scheduler.prefix
        return {
            "seconds": done.seconds,
            "control_seconds": control_seconds,
            "ttft_seconds": done.ttft_seconds(95),
            "tpot_seconds": done.inter_token_seconds(95) if waits else 0.0,
            "requests": [
                [request.ttft_seconds, request.tpot_seconds if len(text) > 1 else 0.0, len(text)]
                for request, text in zip(done.requests, done.texts, strict=True)
            ],
            "n_blocks": engine.cache.n_blocks,
            "peak_blocks": metrics.peak_blocks,
            "mean_running": metrics.mean_running,
            "n_preemptions": metrics.n_preemptions,
            "n_evicted": prefix.statistics.n_evicted_blocks if prefix is not None else 0,
            "hit_rate": metrics.hit_rate,
            "acceptance_rate": metrics.acceptance_rate if self.draft is not None else None,
        }

    def _floats(self) -> NanoLM:
        return self.model if self.choices.weight_bits == 32 else load_model(self.load.model)[0]

    def alone(self) -> list[list[int]]:
        """Write each checked request by itself with `generate`, by the functions of the lessons alone."""
        return self._alone(plain_model(self.model), range(len(self.checked)))

    def chosen(self, alone: Sequence[list[int]]) -> list[list[int]]:
        """Serve the checked requests at once by the engine as chosen; return the texts, in the words of `alone`.

        The fast engine takes its sums in another order than the plain functions, which tells at near ties, with 8-bit
        weights in one text of ten. So a text that differs counts as equal if `generate`, over the same fast layers,
        writes it alone.
        """
        texts = replay_engine("chosen", self.engine(), all_at_once(self.checked), sampling=self.sampling).texts
        others = [i for i, text in enumerate(texts) if text != alone[i]]
        for i, text in zip(others, self._alone(self.model, others), strict=True):
            if texts[i] == text:
                texts[i] = alone[i]
        return texts

    def generated(self, model: NanoLM, i: int, begun: list[int], sampling: SamplingParams, rng: Rng) -> list[int]:
        """Return what `generate` writes of a checked request behind what is written of it already."""
        arrival, kind = self.checked[i], cast(CacheKind, self.choices.cache_kind)
        text, n = [*(arrival.prompt or ()), *begun], arrival.n_output_tokens - len(begun)
        return cast(list[int], model.generate(text, n, sampling, rng, cache_kind=kind))

    def _alone(self, model: NanoLM, numbers: Sequence[int]) -> list[list[int]]:
        return [self.generated(model, i, [], self.sampling, Rng(i)) for i in numbers]
