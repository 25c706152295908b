"""A client that goes away, or is slow: its body has a deadline, and work for it ends at once when it has gone."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..openai_api.refusal import Refusal

_T = TypeVar("_T")

# For a client to take the end of its stream once the time of the request is over.
_LAST_WORDS_SECONDS = 5.0


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Return a request's body, of which no more than `most` bytes are read.

    Raises:
        Refusal: it is longer, packed, or does not come within so many seconds.
    """
    coding = request.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        why = f"Content-Encoding is {coding[:100]!r}; a body is read as it is, without one"
        raise Refusal(415, why, "Content-Encoding", "unsupported_encoding")
    body = bytearray()
    too_large = Refusal(413, f"the body has more than {most} bytes, which is the most", code="body_too_large")
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > most:
        raise too_large
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise Refusal(408, f"the body did not come within {seconds:g} seconds", code="body_too_slow") from None
    return bytes(body)


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T:
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
