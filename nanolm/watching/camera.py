"""Frames of an engine at work: what its passes ran since the last one, and how things stand now.

A frame is a dictionary ready for JSON. Nothing here is built while the camera is off. Each pass is noted in a few
numbers; the state, which takes longer the more blocks there are, is looked at when somebody asks for a frame.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..engine.engine import Engine
from ..engine.metrics import StepRecord
from ..engine.request import Output
from ..engine.scheduler import Plan
from ..engine.token_choice import Outcome
from ..text.tokenizer import Tokenizer
from .forecast import Forecast
from .pace import Pace
from .state import number, state_of

Frame = dict[str, Any]
_log = logging.getLogger("nanolm")
_MOST_PROMPT_WORDS = 64
_MOST_PASSES = 1024  # of a frame, of which the latest count


class Camera:
    """An engine's observer that makes frames. A mistake of its own turns it off, and stops nobody.

    Args:
        send: gets each frame, in the engine's thread.
        word: returns a token's text; None keeps texts to those who asked for them, and frames hold lengths alone.
        every_pass: whether each pass is a frame; else `flush` makes them.

    Attributes:
        pace: how fast the engine may go while it is looked at.
        cost: seconds that the last frame took.
    """

    def __init__(
        self,
        engine: Engine,
        send: Callable[[Frame], None],
        word: Callable[[int], str] | None = None,
        every_pass: bool = False,
    ) -> None:
        self.engine, self.send, self.every_pass = engine, send, every_pass
        self.pace, self.cost = Pace(), 0.0
        self.word = None if word is None else lru_cache(4096)(word)
        self._forecast = Forecast()
        self._told: set[int] = set()  # requests whose prompts have been told
        self._passes: deque[dict[str, Any]] = deque(maxlen=_MOST_PASSES)
        self._work = _Work()

    @property
    def is_on(self) -> bool:
        """Whether the engine is looked at."""
        return self.engine.observer is self

    def turn_on(self) -> None:
        """Begin, or begin anew for somebody who comes later: tell how things stand. In the engine's thread."""
        if not self.is_on:
            self._passes.clear()
            self.engine.observer = self
        self.flush()
        self._told.clear()

    def turn_off(self) -> None:
        """Stop: from the next pass on the engine does nothing for it. In the engine's thread."""
        if self.is_on:
            self.engine.observer = None

    def ran(self, plan: Plan, outcomes: Sequence[Outcome]) -> None:
        """Note what a pass has run, before requests get its tokens."""
        with self._harmless():
            self._work = _Work(
                [self._part(outcome) for outcome in outcomes],
                [request.id for request in plan.preempted],
                sum(outcome.n_tokens for outcome in outcomes if outcome.request.leader is None),
            )

    def passed(self, record: StepRecord, outputs: Sequence[Output]) -> None:
        """Note what came of it."""
        with self._harmless():
            work, n = self._work, self._work.n_tokens
            times = {"at": record.at, "seconds": record.seconds, "model_seconds": record.model_seconds}
            ended = [_ended(output) for output in outputs if output.finish_reason is not None]
            self._passes.append({
                **times, "predicted": self._forecast.seconds(n), "n_tokens": n,
                "parts": work.parts, "preempted": work.preempted, "ended": ended,
            })  # fmt: skip
            self._told.difference_update(each["id"] for each in ended)
            self._forecast.add(n, record.seconds)
        if self.every_pass or self.pace.is_slow:
            self.flush()
        self.pace.wait()

    def flush(self) -> None:
        """Send a frame now. In the engine's thread."""
        with self._harmless():
            now, passes = self.engine.clock(), list(self._passes)
            self._passes.clear()
            frame = {"at": now, "passes": passes, "has_words": self.word is not None, **state_of(self.engine)}
            self.send(frame)
            self.cost = self.engine.clock() - now

    def flush_new(self) -> None:
        """Send a frame if there was a pass since the last one. In the engine's thread."""
        if self._passes:
            self.flush()

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            _log.exception("the engine cannot be watched any more; it goes on")
            self.turn_off()

    def _part(self, outcome: Outcome) -> dict[str, Any]:
        """What a pass did for one request. Made for each in every pass, so what is none is left out."""
        request, new = outcome.request, outcome.new or ()
        follows, word = request.leader is not None, self.word
        part: dict[str, Any] = {
            "id": request.id,
            "kind": "fork" if follows else "decode" if request.is_decoding else "prefill",
            "n": 0 if follows else outcome.n_tokens,
            "n_new": len(new),
        }
        rejected: Sequence[int] = ()
        if request.draft and not follows and (n_drafted := request.n_drafted_in(outcome.n_tokens)) > 0:
            n_kept = min(n_drafted, max(0, len(new) - 1))
            part["n_drafted"], part["n_kept"] = n_drafted, n_kept
            rejected = request.draft[n_kept:n_drafted]
        if word is not None:
            part["new"] = [word(token) for token in new]
            if rejected:
                part["rejected"] = [word(token) for token in rejected]
            if request.id not in self._told:
                self._told.add(request.id)
                part["prompt"] = [word(token) for token in request.tokens[: request.n_prompt][-_MOST_PROMPT_WORDS:]]
                part["before"] = [word(token) for token in request.new_tokens]
        return part


def words_of(tokenizer: Tokenizer) -> Callable[[int], str]:
    """Return what tells a token's text; a token that is a part of a character has the replacement character."""
    return lambda token: tokenizer.decode([token])


@dataclass
class _Work:
    """What a pass ran, until its record comes."""

    parts: list[dict[str, Any]] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    n_tokens: int = 0


def _ended(output: Output) -> dict[str, Any]:
    """How a request has ended, and its times in seconds."""
    metrics = output.metrics
    return {
        "id": output.id,
        "reason": output.finish_reason,
        "n_new": 0 if metrics is None else len(metrics.token_times),
        "ttft": None if metrics is None else number(metrics.ttft_seconds),
        "tpot": None if metrics is None else number(metrics.tpot_seconds),
    }
