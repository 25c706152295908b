"""What becomes of work for a client that goes away: it ends, at once, whether it streams or still computes."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

T = TypeVar("T")

# For a client to take the end of its stream once the time of the request is over.
_LAST_WORDS_SECONDS = 5.0


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Return what the work returns; cancel it when the client goes away first.

    Args:
        receive: the ASGI channel of a request whose body has been read.

    Raises:
        ClientDisconnect: the client has gone.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


class EventStream(StreamingResponse):
    """Server-sent events that end when the client goes away, and whose end, however it comes, is told.

    Args:
        events: the texts to send.
        on_end: called once, in the end.
        deadline: a time of the loop's clock. It is for a client that has stopped reading: `events` keep their own time.
    """

    def __init__(self, events: AsyncGenerator[str, None], on_end: Callable[[], None], deadline: float) -> None:
        # No proxy may gather the events: they are worth something one by one.
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._events, self._on_end, self._deadline = events, on_end, deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            with suppress(ClientDisconnect, OSError, TimeoutError):
                async with asyncio.timeout_at(self._deadline + _LAST_WORDS_SECONDS):
                    await unless_gone(receive, self.stream_response(send))
        finally:
            self._on_end()
            await self._events.aclose()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
