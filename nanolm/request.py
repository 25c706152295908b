"""A request: what is asked, how far it has come, and why it ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from .dice import Dice
from .metrics import RequestMetrics
from .sampling import Sampling
from .scheduler import Job

# Why a request has ended: an end token or its own stop condition; max_new_tokens; somebody called it off; its scores
# were no numbers.
FINISH_REASONS = ("stop", "length", "abort", "error")


@dataclass(eq=False, kw_only=True)
class Request(Job):
    """A request of the engine.

    Attributes:
        id: its number, counted up from 0 in order of arrival.
        n_prompt: tokens of the prompt, the first ones of `tokens`.
        max_new_tokens: most tokens to write, 1 or more.
        sampling, dice: how tokens are chosen, and the randomness, which is the request's own.
        end_tokens: ids that end it; the end token is part of the answer.
        stop: is called with all new tokens after each one; True ends the request.
        draft_source: guesses tokens, or None.
        draft_probs: the distributions that `draft` was drawn from, (n, V).
        finish_reason: one of FINISH_REASONS, None while it goes on.
        error: what went wrong, where the reason is "error".
    """

    id: int
    n_prompt: int
    max_new_tokens: int
    sampling: Sampling
    dice: Dice
    end_tokens: Sequence[int]
    metrics: RequestMetrics
    stop: Callable[[list[int]], bool] | None = None
    draft_source: Any = None
    draft_probs: Tensor | None = None
    finish_reason: str | None = None
    error: str | None = None

    @property
    def new_tokens(self) -> list[int]:
        """The answer so far."""
        return self.tokens[self.n_prompt :]

    @property
    def n_left(self) -> int:
        """Tokens that may still be written."""
        return self.n_prompt + self.max_new_tokens - len(self.tokens)

    def write(self, tokens: Sequence[int], at: float) -> list[int]:
        """Add tokens to the answer up to the one that ends it, and return those added."""
        added = []
        for token in tokens:
            self.tokens.append(token)
            self.metrics.token_times.append(at)
            added.append(token)
            self.finish_reason = self._reason(token)
            if self.finish_reason is not None:
                break
        return added

    def _reason(self, token: int) -> str | None:
        if token in self.end_tokens or (self.stop is not None and self.stop(self.new_tokens)):
            return "stop"
        return "length" if not self.n_left else None


@dataclass(frozen=True)
class Output:
    """What a pass brought one request.

    Attributes:
        id: the request's number.
        tokens: its new tokens of this pass; none if it was called off or failed.
        finish_reason: why it ended with them, None if it goes on.
        error: what went wrong, where the reason is "error".
        metrics: its times, once it has ended.
    """

    id: int
    tokens: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    error: str | None = None
    metrics: RequestMetrics | None = None
