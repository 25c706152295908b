"""Replay a trace of requests against a way of serving, and keep the time of every token.

The ways are the engine, and batches that run until their longest member is done (static batching; with batches of one,
one request at a time). All get the same requests at the same seconds. Every request writes exactly as many tokens as
the trace says, whatever they are, so that all ways do the same work.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..engine.engine import Engine
from ..engine.metrics import RequestMetrics
from ..sampling.params import SamplingParams
from .trace import Arrival

EXACTLY = SamplingParams(temperature=0.0, end_tokens=())  # greedy, and no token ends a text before its time


@dataclass(frozen=True)
class Replay:
    """What came of a trace.

    Attributes:
        name: the way of serving.
        requests: the times of every request, in order of arrival; 0 is the start of the trace.
        texts: what each wrote.
        seconds: from the start of the trace to the last token.
    """

    name: str
    requests: list[RequestMetrics]
    texts: list[list[int]]
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all requests a second."""
        return sum(map(len, self.texts)) / self.seconds if self.seconds else 0.0

    def ttft_seconds(self, percentile: int = 50) -> float:
        """The time to the first token that `percentile` percent of the requests stay within."""
        return _percentile([request.ttft_seconds for request in self.requests], percentile)

    def inter_token_seconds(self, percentile: int = 50) -> float:
        """The wait between two tokens that `percentile` percent of all waits stay within; NaN without any."""
        return _percentile([wait for request in self.requests for wait in request.inter_token_seconds], percentile)

    def end_to_end_seconds(self, percentile: int = 50) -> float:
        """The time from arrival to the last token that `percentile` percent of the requests stay within."""
        return _percentile([request.end_to_end_seconds for request in self.requests], percentile)


def replay_engine(
    name: str,
    engine: Engine,
    trace: Sequence[Arrival],
    on_token: Callable[[int], None] | None = None,
    sampling: SamplingParams = EXACTLY,
    sleep: Callable[[float], object] = time.sleep,
) -> Replay:
    """Hand each request to the engine at its second and run passes until all are done.

    Args:
        sampling: of every request; request i has seed i.
        on_token: called after every pass with the number of its new tokens, for a progress bar.
        sleep: waits so many seconds of the engine's clock, where there is nothing to do.

    Raises:
        ValueError: a request without a prompt, or one that the engine refuses.
    """
    prompts, waiting, at = _prompts(trace), list(enumerate(trace)), {}
    texts: list[list[int]] = [[] for _ in trace]
    metrics: list[RequestMetrics] = [RequestMetrics(0.0)] * len(trace)
    start = engine.clock()
    while waiting or engine.has_work:
        while waiting and engine.clock() - start >= waiting[0][1].seconds:
            i, arrival = waiting.pop(0)
            at[engine.add_request(prompts[i], arrival.n_output_tokens, sampling, seed=i)] = i
        if not engine.has_work:
            sleep(max(0.0, waiting[0][1].seconds - (engine.clock() - start)))
            continue
        outputs = engine.step()
        for output in outputs:
            texts[at[output.id]] += output.tokens
            if output.metrics is not None:
                metrics[at[output.id]] = output.metrics
        if on_token is not None:
            on_token(sum(len(output.tokens) for output in outputs))
    seconds = engine.clock() - start
    return Replay(name, [_from(start, m, a) for m, a in zip(metrics, trace, strict=True)], texts, seconds)


def _prompts(trace: Sequence[Arrival]) -> list[Sequence[int]]:
    prompts: list[Sequence[int]] = []
    for i, arrival in enumerate(trace):
        if arrival.prompt is None:
            raise ValueError(f"trace[{i}] has no prompt, only its length; a replay needs the tokens")
        prompts.append(arrival.prompt)
    return prompts


def _from(start: float, metrics: RequestMetrics, arrival: Arrival) -> RequestMetrics:
    """The same times, counted from the start of the trace; it arrived when the trace says, if seen a pass later."""
    assert metrics.admitted_at is not None and metrics.finished_at is not None  # all have ended
    return RequestMetrics(
        arrival.seconds,
        metrics.admitted_at - start,
        [t - start for t in metrics.token_times],
        metrics.finished_at - start,
        metrics.n_prefix_tokens,
        metrics.n_preemptions,
    )


def _percentile(values: list[float], percentile: int) -> float:
    if not values:
        return float("nan")
    return statistics.quantiles(values, n=100, method="inclusive")[percentile - 1] if len(values) > 1 else values[0]
