"""What a pass brought, given to the requests: new tokens, an end, or another try; and their blocks given back."""

from collections.abc import Callable, Sequence

from ..paging.paged_cache import PagedKVCache
from .model_runner import Outcome
from .request import Output, Request
from .scheduler import Scheduler


class Postprocessor:
    """Writes each request's tokens and dismisses those that have ended.

    Args:
        requests: the engine's, by number; those that end are taken out.
        clock: returns seconds.
    """

    def __init__(
        self, requests: dict[int, Request], scheduler: Scheduler, cache: PagedKVCache, clock: Callable[[], float]
    ) -> None:
        self.requests, self.scheduler, self.cache, self.clock = requests, scheduler, cache, clock

    def __call__(self, outcomes: Sequence[Outcome]) -> list[Output]:
        """Give every request its tokens, and count what is in the cache now."""
        outputs = []
        for request, n, new in outcomes:
            if new is None:
                outputs += self._retry_or_fail(request, n)
            elif not new:  # a chunk of a prompt
                self.scheduler.complete(request, request.n_computed + n)
            else:
                outputs.append(self._write(request, new))
        return outputs

    def finish(self, request: Request, reason: str, error: str | None = None) -> None:
        """Note why a request has ended, and dismiss it."""
        request.finish(reason, self.clock(), error)
        self.scheduler.remove(request)
        del self.requests[request.id]

    def _write(self, request: Request, new: Sequence[int]) -> Output:
        """Add new tokens to the text; all but the last of them, which no pass has read, are in the cache already."""
        try:
            added = request.write(new, self.clock())
        except Exception as error:  # its stop condition is the caller's code; it must not take the others down
            return self._fail(request, f"the stop condition raised {error!r}; the request was ended")
        self.scheduler.complete(request, len(request.tokens) - 1)
        if request.finish_reason is None:
            return Output(request.id, added)
        self.finish(request, request.finish_reason)
        return Output(request.id, added, request.finish_reason, metrics=request.metrics)

    def _retry_or_fail(self, request: Request, n: int) -> list[Output]:
        """End a request whose logits are NaN or infinite; if its draft may be to blame, run it again without."""
        if request.n_drafted_in(n) > 0:
            self._clean_blocks(request)
            self.scheduler.preempt(request)
            request.draft_source = None
            return []
        n_read = request.n_computed + n
        return [self._fail(request, f"the logits after token {n_read} hold NaN or infinity; the request was ended")]

    def _fail(self, request: Request, why: str) -> Output:
        """End a request that cannot go on."""
        self._clean_blocks(request)
        self.finish(request, "error", why)
        return Output(request.id, [], "error", why, request.metrics)

    def _clean_blocks(self, request: Request) -> None:
        """Put zeros into the blocks that nobody else holds, before the next one gets them."""
        references = self.scheduler.allocator.references
        self.cache.clear_blocks([block for block in request.table.blocks if references(block) == 1])
