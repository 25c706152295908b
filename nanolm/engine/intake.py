"""How an engine takes requests in: one, several of one prompt, or a second one from where another is."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from operator import index
from typing import TypeVar

from .._require import require_whole
from ..config import ModelConfig
from ..grammar.constraint import Grammar
from ..model.decoder import NanoLM, check_prompts
from ..sampling.adjust import check_vocabulary
from ..sampling.params import SamplingParams
from ..sampling.rng import Rng
from .metrics import RequestMetrics
from .request import Request
from .scheduler import Scheduler

Stop = Callable[[list[int]], bool] | None
_T = TypeVar("_T")


class Intake:
    """`add_request`, `add_group` and `fork` of an engine, which has these attributes of it."""

    model: NanoLM
    clock: Callable[[], float]
    _requests: dict[int, Request]
    _ids: "itertools.count[int]"

    @property
    def scheduler(self) -> Scheduler:
        """The books."""
        raise NotImplementedError

    def request(self, request_id: int) -> Request:
        """Return a request that has not ended."""
        raise NotImplementedError

    def add_request(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        sampling: SamplingParams | None = None,
        seed: int | None = None,
        stop: Stop = None,
        grammar: Grammar | None = None,
        score_prompt: bool = False,
    ) -> int:
        """Take a request; return its number. Nothing runs before the next `step`.

        Args:
            prompt: token ids, at least one.
            max_new_tokens: most tokens to write, at least one.
            sampling: how tokens are chosen, and which end it; None means greedy.
            seed: of the request's own randomness; with the same seed it writes the same text in any batch, with
                drafts or without: that of `NanoLM.generate` with Rng(seed).
            stop: called with the new tokens so far after each; True ends the request.
            grammar: what the answer must look like: tokens that would break it are never chosen, and it ends where
                nothing may follow.
            score_prompt: whether the first output shall hold the log-probabilities of the prompt's own tokens: all of
                the prompt is run then, whatever is cached of it.

        Raises:
            ValueError: an empty prompt, a token outside the vocabulary, max_new_tokens below 1, or a text that is
                longer than the context or than the whole pool. No other request is touched by that.
        """
        request = self._new(prompt, max_new_tokens, sampling, stop, grammar)
        request.score_prompt = score_prompt
        self._enter(request, seed, self.scheduler.add)
        return request.id

    def add_group(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        sampling: SamplingParams | None = None,
        seeds: Sequence[int | None] = (None,),
        stops: Sequence[Stop] | None = None,
        grammar: Grammar | None = None,
        score_prompt: bool = False,
    ) -> list[int]:
        """Take several requests of one prompt, one a seed; return their numbers. The prompt runs once.

        The first runs it, and the others are forked from it then: they hold its blocks until they write into them.
        Where more than max_running would run, the others wait their turn as any request.

        Args:
            stops: one condition a request; None means none.

        Raises:
            ValueError: what `add_request` refuses, no seeds, not one stop condition a seed. Then none is taken.
        """
        seeds = _listed("seeds", seeds, "whole numbers, or None where any will do")
        stops = [None] * len(seeds) if stops is None else _listed("stops", stops, "functions, or None")
        if not seeds or len(stops) != len(seeds):
            raise ValueError(f"seeds has {len(seeds)} entries and stops {len(stops)}; give one of each a request")
        first, *others = [self._new(prompt, max_new_tokens, sampling, stop, grammar) for stop in stops]
        first.score_prompt = score_prompt
        for seed in seeds:
            Rng(seed)  # what it refuses, before anybody is taken
        self._enter(first, seeds[0], self.scheduler.add)
        for request, seed in zip(others, seeds[1:], strict=True):
            request.leader = first
            self._enter(request, seed, first.followers.append)
        return [request.id for request in (first, *others)]

    def fork(self, request_id: int, seed: int | None = None, stop: Stop = None) -> int:
        """Let a second request run on from where a running one is, with an rng of its own; return its number.

        Both hold the same blocks until they write into them.

        Args:
            stop: the second one's own stop condition; must be given where the first has one, which may keep a state.

        Raises:
            ValueError: no such request, or it is not running, or no more may run; no stop condition where one is due.
        """
        original = self.request(request_id)
        if original.stop is not None and stop is None:
            raise ValueError(
                f"stop is None, and request {request_id} has a stop condition: give the fork one of its own"
            )
        twin = original.twin(stop)
        self._enter(twin, seed, partial(self.scheduler.fork, original))
        twin.metrics.admitted_at = twin.metrics.arrived_at
        return twin.id

    def _new(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        sampling: SamplingParams | None,
        stop: Stop,
        grammar: Grammar | None,
    ) -> Request:
        require_whole(1, max_new_tokens=max_new_tokens)
        tokens = _token_ids(prompt)
        check_prompts([tokens], max_new_tokens, self.model.config)
        check_steady(len(tokens) + max_new_tokens, self.model.config)
        if not isinstance(sampling, SamplingParams | None):
            raise ValueError(f"sampling is {sampling!r}; it must be SamplingParams, or None for greedy")
        if stop is not None and not callable(stop):
            raise ValueError(f"stop is {stop!r}; it must be a function of the new tokens, or None")
        sampling = sampling or SamplingParams(temperature=0.0)
        ends = sampling.ends(self.model.config.eos_token_ids)
        check_vocabulary(sampling, self.model.config.vocab_size, ends)
        return Request(tokens, len(tokens), max_new_tokens, sampling, ends, stop, grammar)

    def _enter(self, request: Request, seed: int | None, schedule: Callable[[Request], None]) -> None:
        """Number a request and give it what is the engine's to give, if the scheduler takes it."""
        request.rng, request.has_seed, request.metrics = Rng(seed), seed is not None, RequestMetrics(self.clock())
        schedule(request)
        request.id = next(self._ids)
        self._requests[request.id] = request


def _token_ids(prompt: Sequence[int]) -> list[int]:
    """Return the prompt as a list of ints; one 2.5 in it would break the pass of everybody."""
    try:
        return [index(token) for token in prompt]
    except TypeError:
        raise ValueError(f"prompt is {prompt!r}; it must be a sequence of token ids, whole numbers") from None


def _listed(name: str, values: Sequence[_T], of: str) -> list[_T]:
    try:
        return list(values)
    except TypeError:
        raise ValueError(f"{name} is {values!r}; it must be a list of {of}") from None


def check_steady(n_positions: int, config: ModelConfig) -> None:
    """Raise a ValueError where a text gets so long that its angles would follow the longest text of a pass."""
    if n_positions > config.steady_positions:
        kind = config.rope_scaling and config.rope_scaling.kind
        raise ValueError(
            f"the prompt and max_new_tokens make {n_positions} positions; beyond {config.steady_positions} this "
            f"model's angles follow the length of the text ({kind}), and so of whoever is served with it: use generate"
        )
