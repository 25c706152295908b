"""Ways to serve a trace that the engine is compared with: batches that run until their longest member is done."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import torch

from .._require import require_count
from ..engine.metrics import RequestMetrics
from ..model.decoder import NanoLM
from .replay import EXACTLY, Replay, _prompts
from .trace import Arrival

# Given prompts and the longest answer wanted, yields one token a row, pass after pass.
Batch = Callable[[list[Sequence[int]], int], Iterator[Sequence[int | None]]]


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


def transformers_model(path: Path, dtype: torch.dtype = torch.float32) -> Any:
    """Return transformers' own model of a folder or a GGUF file, as `find_model` says, whose texts do not end.

    Raises:
        ImportError: transformers is not installed.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # of the loading; it would stand in the middle of ours
    folder, file = (path.parent, {"gguf_file": path.name}) if path.is_file() else (path, {})
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **file).eval()
    model.generation_config.eos_token_id = None  # as EXACTLY: nothing ends before its time
    return model


def transformers_batch(model: Any) -> Batch:
    """Return the batches of transformers' own `generate`, with a `transformers_model`, each token as it comes."""
    from transformers import StoppingCriteria, StoppingCriteriaList

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
