"""What each engine does when its turn comes: prefill, decode one text or eight, serve 64 requests, write a text.

All are greedy and take token ids, so that no tokenizer is measured. Each method returns the seconds of what its name
says, loading and first use apart.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from nanolm.checkpoint import load_gguf, load_packed_gguf
from nanolm.engine import Engine
from nanolm.model import NanoLM
from nanolm.quantization import with_compiled_linear
from nanolm.sampling import SamplingParams
from nanolm.workload import Trace, replay_batches, replay_engine, transformers_batch, transformers_model

SLOTS = 16  # requests served at a time
_UNENDING = SamplingParams(temperature=0.0, end_tokens=())
Prompt = list[int]


class Peer(Protocol):
    """An engine with a model in it, on a number of threads."""

    def prefill(self, prompt: Prompt) -> float:
        """Return the seconds of one pass over a prompt."""
        ...

    def decode(self, prompts: list[Prompt], n_tokens: int) -> float:
        """Return the seconds of a decode pass over texts of one length, the mean of `n_tokens`."""
        ...

    def serve(self, trace: Trace) -> float:
        """Return the seconds for all requests, all there from the start."""
        ...

    def text(self, prompt: Prompt, n_tokens: int) -> list[int]:
        """Return the greedy continuation."""
        ...


def ours(precision: str, path: Path, threads: int) -> Peer:
    """Return NanoLM with a GGUF file whose codes stay packed."""
    torch.set_num_threads(threads)
    if precision.endswith("bits"):
        return _Ours(load_packed_gguf(path)[0])
    return _Ours(with_compiled_linear(load_gguf(path, dtype=getattr(torch, precision))[0]))


class _Ours:
    def __init__(self, model: NanoLM) -> None:
        self.model = model

    @torch.inference_mode()
    def prefill(self, prompt: Prompt) -> float:
        tokens = torch.tensor([prompt])
        return _seconds(lambda: self.model(tokens, self.model.new_cache(capacity=len(prompt)), last=1))

    def decode(self, prompts: list[Prompt], n_tokens: int) -> float:
        stream = self.model.stream(prompts, n_tokens + 1, _UNENDING)
        next(stream)
        return _seconds(lambda: list(stream)) / n_tokens

    def serve(self, trace: Trace) -> float:
        return replay_engine("NanoLM", Engine(self.model, max_running=SLOTS, prefix_cache=False), trace).seconds

    def text(self, prompt: Prompt, n_tokens: int) -> list[int]:
        return self.model.generate([prompt], n_tokens, _UNENDING)[0]  # pyright: ignore[reportReturnType]


def theirs(precision: str, path: Path, threads: int) -> Peer:
    """Return transformers with a folder, in float32 or bfloat16."""
    torch.set_num_threads(threads)
    return _Transformers(transformers_model(path, getattr(torch, precision)))


class _Transformers:
    def __init__(self, model: Any) -> None:
        self.model = model

    @torch.inference_mode()
    def prefill(self, prompt: Prompt) -> float:
        tokens = torch.tensor([prompt])
        return _seconds(lambda: self.model(tokens, use_cache=True, logits_to_keep=1))

    def decode(self, prompts: list[Prompt], n_tokens: int) -> float:
        steps = transformers_batch(self.model)(prompts, n_tokens + 1)
        next(steps)
        return _seconds(lambda: list(steps)) / n_tokens

    def serve(self, trace: Trace) -> float:
        return replay_batches("transformers", transformers_batch(self.model), trace, SLOTS).seconds

    def text(self, prompt: Prompt, n_tokens: int) -> list[int]:
        return self._generate([prompt], n_tokens)[0, len(prompt) :].tolist()

    def _generate(self, prompts: list[Prompt], n_tokens: int) -> torch.Tensor:
        tokens = torch.tensor(prompts)
        settings = {"max_new_tokens": n_tokens, "do_sample": False, "pad_token_id": 0}
        return self.model.generate(tokens, attention_mask=torch.ones_like(tokens), **settings)


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
