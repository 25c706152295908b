"""Replay a trace of requests against a way of serving, and keep the time of every token.

The ways are the engine, and batches that run until their longest member is done (static batching; with batches of one,
one request at a time). All get the same requests at the same seconds. Every request writes exactly as many tokens as
the trace says, whatever they are, so that all ways do the same work.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import torch

from ._require import require_count
from .engine import Engine
from .metrics import RequestMetrics
from .model import NanoLM
from .sampling import Sampling
from .traces import Arrival

EXACTLY = Sampling(temperature=0.0, end_tokens=())  # greedy, and no token ends a text before its time

# Given prompts and the longest answer wanted, yields one token a row, pass after pass.
Batch = Callable[[list[Sequence[int]], int], Iterator[Sequence[int | None]]]


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
    sampling: Sampling = EXACTLY,
) -> Replay:
    """Hand each request to the engine at its second and run passes until all are done.

    Args:
        sampling: of every request; request i has seed i.
        on_token: called after every pass with the number of its new tokens, for a progress bar.

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
            time.sleep(max(0.0, waiting[0][1].seconds - (engine.clock() - start)))
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


def replay_batches(
    name: str,
    batch: Batch,
    trace: Sequence[Arrival],
    batch_size: int,
    on_token: Callable[[int], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Replay:
    """Serve whoever has arrived, at most `batch_size` at a time, and nobody else until the longest of them is done.

    A batch runs as long as its longest answer. What it writes for a row beyond the row's own answer is thrown away; the
    row's times are its own, as if each token were sent when it is there.

    Raises:
        ValueError: batch_size below 1; a request without a prompt.
    """
    require_count(1, batch_size=batch_size)
    prompts, texts = _prompts(trace), [[] for _ in trace]
    metrics = [RequestMetrics(arrival.seconds) for arrival in trace]
    start, first = clock(), 0
    while first < len(trace):
        time.sleep(max(0.0, trace[first].seconds - (clock() - start)))
        arrived = [i for i in range(first, len(trace)) if trace[i].seconds <= clock() - start]
        rows = arrived[:batch_size] or [first]
        for i in rows:
            metrics[i].admitted_at = clock() - start
        for step in batch([prompts[i] for i in rows], max(trace[i].n_output_tokens for i in rows)):
            now, n_new = clock() - start, 0
            for i, token in zip(rows, step, strict=True):
                if token is not None and len(texts[i]) < trace[i].n_output_tokens:
                    texts[i].append(token)
                    metrics[i].token_times.append(now)
                    metrics[i].finished_at = now
                    n_new += 1
            if on_token is not None:
                on_token(n_new)
        first += len(rows)
    return Replay(name, metrics, texts, clock() - start)


def nanolm_batch(model: NanoLM) -> Batch:
    """Return the batches of `NanoLM.stream`."""
    return lambda prompts, n: model.stream(prompts, n, EXACTLY)


def transformers_batch(path: Path) -> Batch:
    """Return the batches of transformers' own `generate` with the same weights in float32, each token as it comes.

    Args:
        path: a folder or a GGUF file, as `find_model` says.

    Raises:
        ImportError: transformers is not installed.
    """
    from transformers import AutoModelForCausalLM, StoppingCriteria, StoppingCriteriaList
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # of the loading; it would stand in the middle of ours
    folder, file = (path.parent, {"gguf_file": path.name}) if path.is_file() else (path, {})
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **file).eval()
    model.generation_config.eos_token_id = None  # as EXACTLY: nothing ends before its time

    class Tell(StoppingCriteria):
        """Is called after every token; it tells of it and never stops anything."""

        def __init__(self, steps: Queue) -> None:
            self.steps = steps

        def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
            self.steps.put(input_ids[:, -1].tolist())
            return torch.zeros(len(input_ids), dtype=torch.bool)

    def run(prompts: list[Sequence[int]], n: int) -> Iterator[list[int]]:
        longest = max(map(len, prompts))
        tokens = torch.tensor(
            [[0] * (longest - len(p)) + list(p) for p in prompts]
        )  # its batches are padded on the left
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
        steps: Queue = Queue()
        settings = {"max_new_tokens": n, "do_sample": False, "pad_token_id": 0}
        tell = StoppingCriteriaList([Tell(steps)])
        # generate returns when all is written; in a thread of its own it can be watched meanwhile.
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(model.generate, tokens, attention_mask=mask, stopping_criteria=tell, **settings)
            done.add_done_callback(lambda _: steps.put(None))
            yield from iter(steps.get, None)
            done.result()  # raises what went wrong

    return run


def _prompts(trace: Sequence[Arrival]) -> list[Sequence[int]]:
    for i, arrival in enumerate(trace):
        if arrival.prompt is None:
            raise ValueError(f"trace[{i}] has no prompt, only its length; a replay needs the tokens")
    return [arrival.prompt for arrival in trace]


def _from(start: float, metrics: RequestMetrics, arrival: Arrival) -> RequestMetrics:
    """The same times, counted from the start of the trace; it arrived when the trace says, if seen a pass later."""
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
