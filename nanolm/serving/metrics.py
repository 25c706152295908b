"""What a server has done so far, for Prometheus: its library keeps the numbers, one registry a server.

Rates and quantiles are left to whoever reads: two readings give the tokens a second between them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..engine.metrics import RequestMetrics, StepRecord
from ..engine.request import FINISH_REASONS, Output

CONTENT_TYPE = "text/plain; version=0.0.4"
_PREFIX = "nanolm_"
# Seconds: from a pass of a small model to a queue that nobody should stand in.
_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)


class ServerMetrics:
    """Counters and histograms of everything served. Written by the engine's thread; anybody reads.

    Args:
        gauges: returns numbers that hold for the moment alone, by name.
    """

    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        self.registry = CollectorRegistry()
        self._latest: StepRecord | None = None
        self._steps = self._counter("steps", "Passes of the engine.")
        self._step_seconds = self._counter("step_seconds", "Seconds spent in passes.")
        self._model_seconds = self._counter("model_seconds", "Seconds of them that the model took.")
        self._prefill_tokens = self._counter("prefill_tokens", "Prompt tokens run.")
        self._decode_tokens = self._counter("decode_tokens", "Tokens run for decoding requests.")
        self._new_tokens = self._counter("new_tokens", "Tokens written.")
        self._preemptions = self._counter("preemptions", "Times a request was preempted.")
        self._cached_tokens = self._counter("cached_prompt_tokens", "Prompt tokens that the prefix cache had.")
        self._ended = Counter(f"{_PREFIX}requests", "Requests that have ended.", ["reason"], registry=self.registry)
        for reason in FINISH_REASONS:
            self._ended.labels(reason)  # there from the beginning, at 0
        self._queue = self._histogram("queue_seconds", "From arrival to the first blocks.")
        self._ttft = self._histogram("ttft_seconds", "From arrival to the first token.")
        self._tpot = self._histogram("tpot_seconds", "Mean wait of a request for a token after its first.")
        self._inter_token = self._histogram("inter_token_seconds", "From one token to the next.")
        self.registry.register(_Gauges(gauges))

    def _counter(self, name: str, said: str) -> Counter:
        return Counter(_PREFIX + name, said, registry=self.registry)

    def _histogram(self, name: str, said: str) -> Histogram:
        return Histogram(_PREFIX + name, said, buckets=_BUCKETS, registry=self.registry)

    def count_step(self, records: Sequence[StepRecord]) -> None:
        """Add the last of the engine's records, unless it was added before."""
        if not records or records[-1] is self._latest:
            return
        record = self._latest = records[-1]
        self._steps.inc()
        self._step_seconds.inc(record.seconds)
        self._model_seconds.inc(record.model_seconds)
        self._prefill_tokens.inc(record.n_prefill_tokens)
        self._decode_tokens.inc(record.n_decode_tokens)
        self._new_tokens.inc(record.n_new_tokens)
        self._preemptions.inc(record.n_preempted)

    def count_end(self, output: Output) -> None:
        """Add a request that has ended: its reason and, where it got tokens and was not called off, its waits."""
        assert output.finish_reason is not None
        self._ended.labels(output.finish_reason).inc()
        if output.metrics is not None:
            self._count_waits(output.metrics)

    def _count_waits(self, metrics: RequestMetrics) -> None:
        self._cached_tokens.inc(metrics.n_prefix_tokens)
        for histogram, seconds in (
            (self._queue, metrics.queue_seconds),
            (self._ttft, metrics.ttft_seconds),
            (self._tpot, metrics.tpot_seconds),
        ):
            if not math.isnan(seconds):
                histogram.observe(seconds)
        for seconds in metrics.inter_token_seconds:
            self._inter_token.observe(seconds)

    def value(self, name: str, **labels: str) -> float:
        """Return a number by its name in the text, without the prefix.

        Raises:
            KeyError: there is none of that name.
        """
        found = self.registry.get_sample_value(_PREFIX + name, labels)
        if found is None:
            raise KeyError(f"no number is called {_PREFIX}{name} {labels or ''}")
        return found

    def text(self) -> str:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self.registry).decode()


class _Gauges(Collector):
    """Numbers that are looked up when somebody asks."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        self.gauges = gauges

    def describe(self) -> list[Metric]:
        """Nothing yet: the engine need not be there when the registry is made."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield them."""
        for name, number in self.gauges().items():
            yield GaugeMetricFamily(_PREFIX + name, name.replace("_", " ").capitalize() + ".", value=number)
