"""Rules that look at the text, for a loop that knows nothing of them: the model it runs has adjusted logits.

The loop that the lessons teach (`NanoLM.stream`) runs a model and hands its logits on to be drawn from. Here the model
is another one: it remembers what each row has read, and gives the logits of the next token with the rules applied.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from .adjust import adjust_logits
from .params import SamplingParams

Stream = TypeVar("Stream", bound=Callable[..., Iterator[Any]])


def with_adjusted_logits(stream: Stream) -> Stream:
    """Return the method `stream(model, prompts, max_new_tokens, sampling, …)`, following every rule of `sampling`."""

    @functools.wraps(stream)
    def adjusted(
        model: Any, prompts: Any, max_new_tokens: int, sampling: SamplingParams | None = None, *args: Any, **kwargs: Any
    ) -> Iterator[Any]:
        if sampling is not None and sampling.adjusts:
            model = _AdjustedModel(model, sampling)
        return stream(model, prompts, max_new_tokens, sampling, *args, **kwargs)

    return cast(Stream, adjusted)


class _AdjustedModel:
    """A model, for one stream: its first pass reads the prompts, each other one more token a row."""

    def __init__(self, model: Any, sampling: SamplingParams) -> None:
        self._model, self._sampling = model, sampling
        self._ends = sampling.ends(model.config.eos_token_ids)
        self._texts: list[list[int]] = []
        self._n_prompts: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, tokens: Tensor, cache: Any, last: int | Tensor | None = None) -> Tensor:
        """Return the adjusted logits of each row's next token, (B, 1, V) in float64."""
        logits = self._model(tokens, cache, last)[:, -1]
        read = tokens.tolist()
        if self._texts:
            for text, new in zip(self._texts, read, strict=True):
                text += new
        else:
            # Short prompts are padded on the right; the position that is scored is where a row's own prompt ends.
            self._n_prompts = (last + 1).tolist() if isinstance(last, Tensor) else [len(row) for row in read]
            self._texts = [row[:n] for row, n in zip(read, self._n_prompts, strict=True)]
        rows = zip(logits, self._texts, self._n_prompts, strict=True)
        return torch.stack([adjust_logits(row, self._sampling, text, n, self._ends) for row, text, n in rows])[:, None]
