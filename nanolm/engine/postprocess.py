"""What a pass brought, given to the requests: new tokens, an end, or another try; and their blocks given back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from ..grammar.constraint import GAVE_UP
from .metrics import StepRecord
from .model_runner import ModelRunner
from .request import Output, Request
from .scheduler import Plan, Scheduler
from .token_choice import Outcome


class Observer(Protocol):
    """Somebody who looks at an engine's passes, in its thread. It changes nothing, and must not raise."""

    def ran(self, plan: Plan, outcomes: Sequence[Outcome]) -> None:
        """A pass has run, and its requests have not got their tokens yet."""
        ...

    def passed(self, record: StepRecord, outputs: Sequence[Output]) -> None:
        """They have them."""
        ...


class Postprocessor:
    """Writes each request's tokens and dismisses those that have ended.

    Args:
        requests: the engine's, by number; those that end are taken out.
        clock: returns seconds.
    """

    def __init__(
        self, requests: dict[int, Request], scheduler: Scheduler, runner: ModelRunner, clock: Callable[[], float]
    ) -> None:
        self.requests, self.scheduler, self.runner, self.clock = requests, scheduler, runner, clock

    def __call__(self, outcomes: Sequence[Outcome]) -> list[Output]:
        """Give every request its tokens, and count what is in the cache now."""
        outputs = []
        for outcome in self._with_followers(outcomes):
            if outcome.new is None:
                outputs += self._retry_or_fail(outcome)
            elif not outcome.new:  # a chunk of a prompt
                self.scheduler.complete(outcome.request, outcome.request.n_computed + outcome.n_tokens)
            else:
                outputs.append(self._write(outcome))
        return outputs

    def finish(self, request: Request, reason: str, error: str | None = None) -> None:
        """Note why a request has ended, and dismiss it; who follows it is served without it."""
        request.finish(reason, self.clock(), error)
        if request.leader is not None:
            request.leader.followers.remove(request)
        else:
            self.scheduler.remove(request)
            self._go_on_without(request)
        del self.requests[request.id]

    def _with_followers(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Fork the followers whose first token is there; return the outcomes of all that run."""
        served = []
        for outcome in outcomes:
            request, leader = outcome.request, outcome.request.leader
            if leader is not None:
                leader.followers.remove(request)
                request.leader = None
                if len(self.scheduler.running) >= self.scheduler.max_running:
                    self.scheduler.add(request)  # it waits, and will draw the same token again
                    continue
                self.scheduler.fork(leader, request)
                request.metrics.admitted(self.clock(), leader.metrics.n_prefix_tokens)
            served.append(outcome)
        return served

    def _go_on_without(self, leader: Request) -> None:
        """Let the first follower of a request that has ended before its prompt had run take its place."""
        if leader.followers:
            first, *others = leader.followers
            leader.followers, first.followers, first.leader = [], others, None
            for other in others:
                other.leader = first
            self.scheduler.add(first)
            self.scheduler.waiting.rotate(1)  # it has waited as long as the other

    def _write(self, outcome: Outcome) -> Output:
        """Add new tokens to the text; all but the last of them, which no pass has read, are in the cache already."""
        request = outcome.request
        try:
            added = request.write(outcome.new or (), self.clock())
        except Exception as error:
            if str(error).startswith(GAVE_UP):
                return self._fail(request, str(error))
            # Its stop condition is the caller's code; it must not take the others down
            return self._fail(request, f"the stop condition raised {error!r}; the request was ended")
        logprobs = None if outcome.logprobs is None else outcome.logprobs[: len(added)]
        is_first = request.score_prompt and len(added) == len(request.new_tokens)
        output = Output(request.id, added, logprobs=logprobs)
        output = replace(output, prompt_logprobs=request.prompt_logprobs) if is_first else output
        self.scheduler.complete(request, len(request.tokens) - 1)
        if request.finish_reason is None:
            return output
        self.finish(request, request.finish_reason)
        return replace(output, finish_reason=request.finish_reason, metrics=request.metrics)

    def _retry_or_fail(self, outcome: Outcome) -> list[Output]:
        """End a request that can have no token; if its draft may be to blame, run it again without."""
        request = outcome.request
        if request.n_drafted_in(outcome.n_tokens) > 0:
            self._clean_blocks(request)
            self.scheduler.preempt(request)
            request.may_draft = False
            return []
        return [self._fail(request, f"{outcome.error}; the request was ended")]

    def _fail(self, request: Request, why: str) -> Output:
        """End a request that cannot go on."""
        self._clean_blocks(request)
        self.finish(request, "error", why)
        return Output(request.id, [], "error", why, request.metrics)

    def _clean_blocks(self, request: Request) -> None:
        """Put zeros into the blocks that nobody else holds, before the next one gets them."""
        references = self.scheduler.allocator.references
        self.runner.clear_blocks([block for block in request.table.blocks if references(block) == 1])
