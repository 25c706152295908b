"""What the server holds while its requests are served: the way their outputs come back to the event loop."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ..engine.request import Output


class Busy(Exception):
    """As many requests wait as may; the same one can be taken later."""


class NotServing(Exception):
    """No request is taken: the thread is shutting down, or its engine is broken."""


class RequestGroup:
    """Requests that belong together, from `submit` to their end. It is the loop's, but for `ids`.

    Attributes:
        requests: the arguments of `Engine.add_request`, one mapping a request.
        going: the indices of those that have not ended.
        accepted: is done once the engine has taken them, or holds the error with which it has not.
        ids: the engine's numbers; the engine thread's own.
    """

    def __init__(self, requests: Sequence[Mapping[str, Any]]) -> None:
        self.requests, self.going = requests, set(range(len(requests)))
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._events: asyncio.Queue[tuple[int, Output]] = asyncio.Queue()
        self.ids: list[int] = []

    async def next(self, deadline: float | None = None) -> tuple[int, Output]:
        """Return the next output, and the index of the request that it belongs to.

        Every request gives one with a finish reason, and none after it.

        Args:
            deadline: a time of the loop's clock; None waits for as long as it takes.

        Raises:
            TimeoutError: the deadline has passed. The requests go on until they are aborted.
        """
        async with asyncio.timeout_at(deadline):
            return await self._events.get()

    def settle(self, error: Exception | None) -> None:
        """Tell whoever waits for `accepted`, unless nobody does any more."""
        if self.accepted.done():
            return
        if error is None:
            self.accepted.set_result(None)
        else:
            self.accepted.set_exception(error)

    def deliver(self, index: int, output: Output) -> None:
        """Hand over an output of a request that has not ended."""
        self._events.put_nowait((index, output))
        if output.finish_reason is not None:
            self.going.remove(index)
