"""Decoding with CUDA graphs: the hundreds of small operations of a step, recorded once and started together.

At small batch a GPU finishes each operation sooner than the host can ask for the next. A CUDA graph asks once: it
repeats what was recorded, with the recorded addresses and the recorded Python numbers. So nothing that changes from
step to step may be a Python number or a new tensor. Tokens are copied into a fixed buffer, positions are a tensor that
is changed in place, and the cache is read in full under a mask: what lies behind a row's length is read, and hidden.
There is one graph for each of several batch sizes; a batch in between leaves rows idle. A step that waits for the host,
such as a mixture of experts in a loop, cannot be recorded.

Without a GPU the same step runs unrecorded, so that everything but the recording can be tested anywhere.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .._require import require_count
from ..cache.static import StaticKVCache
from .decoder import NanoLM, check_prompts, right_padded


class _Step(NamedTuple):
    """The buffer of a step's tokens, (size, 1), and what computes its logits, (size, V)."""

    tokens: Int[Tensor, "size 1"]
    run: Callable[[], Tensor]


class StaticDecoder:
    """A model's decode step for batches of several sizes, recorded as CUDA graphs where there is a GPU.

    Attributes:
        batch_sizes: what is recorded, from small to large.
        cache: of the largest size. Its first rows are the batch.
    """

    def __init__(
        self,
        model: NanoLM,
        batch_sizes: Sequence[int] = (1, 2, 4, 8),
        capacity: int | None = None,
        record: bool | None = None,
    ) -> None:
        """Prepare the steps; on a GPU each is run a few times and recorded.

        Args:
            capacity: positions of a row; None means the model's context. Every step reads all of them.
            record: None means where the model is on a GPU.

        Raises:
            ValueError: no batch size, or one below 1; record without a GPU; a model with windows, or one whose angles
                follow the length of the text, for a recorded step does the same every time.
        """
        if model.config.windows or model.config.steady_positions < model.config.max_positions:
            raise ValueError(
                "the model's steps depend on the length of the text (windows, scaled positions): run it as it is"
            )
        if not batch_sizes:
            raise ValueError("batch_sizes is empty; give at least one")
        for size in batch_sizes:
            require_count(1, batch_sizes=size)
        on_gpu = model.device.type == "cuda"
        if record and not on_gpu:
            raise ValueError(f"record is True and the model is on {model.device}; only a GPU records CUDA graphs")
        self.model, self.batch_sizes = model, sorted(set(batch_sizes))
        capacity = model.config.max_positions if capacity is None else capacity
        self.cache = StaticKVCache(model.config, self.batch_sizes[-1], capacity, model.dtype, model.device)
        self._records, self._pool, self._n = on_gpu if record is None else record, None, 0
        # The largest first: the others' graphs find room in its memory.
        self._steps = {size: self._prepare(size) for size in reversed(self.batch_sizes)}

    @torch.inference_mode()
    def prefill(self, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "n V"]:
        """Return the logits behind each of n prompts, which are the batch from now on; what was cached is forgotten.

        Raises:
            ValueError: more prompts than the largest batch size; prompts with no room in the model or the capacity.
        """
        n, lengths = len(prompts), [len(prompt) for prompt in prompts]
        check_prompts(prompts, 0, self.model.config)
        if n > self.batch_sizes[-1]:
            raise ValueError(f"prompts are {n}; the largest of batch_sizes is {self.batch_sizes[-1]}")
        self.cache.truncate(0)
        last = torch.tensor(lengths, device=self.model.device) - 1
        tokens = right_padded(prompts, self.model.device)
        logits = self.model(tokens, self.cache.first_rows(n), last)[:, -1]
        self._n = n
        self.cache.advance([*lengths, *[0] * (self.batch_sizes[-1] - n)])  # idle rows stay empty
        return logits

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, "n"]) -> Float[Tensor, "n V"]:
        """Return the logits behind one more token of each text.

        Raises:
            ValueError: not as many tokens as there were prompts; a cache that is full.
        """
        if not self._n or tokens.shape != (self._n,):
            raise ValueError(f"tokens has shape {tuple(tokens.shape)}; it must be ({self._n},), as many as prompts")
        if self.cache.length == self.cache.capacity:
            raise ValueError(f"capacity is {self.cache.capacity} positions, and a text fills them: make it larger")
        size = next(size for size in self.batch_sizes if size >= self._n)
        step = self._steps[size]
        step.tokens[: self._n, 0].copy_(tokens)
        logits = step.run()[: self._n].clone()  # the next step writes its own into the same place
        self.cache.advance([1] * self._n + [0] * (self.batch_sizes[-1] - self._n))
        return logits

    @torch.inference_mode()
    def _prepare(self, size: int) -> _Step:
        tokens, cache = torch.zeros(size, 1, dtype=torch.long, device=self.model.device), self.cache.first_rows(size)

        def run() -> Tensor:
            return self.model(tokens, cache)[:, -1]

        return _Step(tokens, self._record(run) if self._records else run)

    def _record(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Return what repeats the operations of `run`; it writes position 0 of empty rows, where a prompt will be."""
        with torch.cuda.device(self.model.device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):  # libraries choose their algorithms and tables are made: nothing to record
                    run()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                logits = run()
        self._pool = graph.pool()

        def replay() -> Tensor:
            graph.replay()
            return logits

        return replay
