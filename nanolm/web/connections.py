"""The connections of a server: how many there are, and how long one may keep the server waiting.

uvicorn gives a connection that never finishes its headers, or never reads its answer, all the time it wants. Here each
has a deadline, and their number an end: a hundred sockets that say nothing must not keep out the one that asks.
"""

import asyncio
import json
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_KEEP_ALIVE_SECONDS = 75  # as nginx: longer than clients' own pools keep a connection that nobody uses
_NO_ROOM = json.dumps({"error": {
    "message": "all connections that the server keeps are busy; try again later",
    "type": "server_error", "param": None, "code": "too_many_connections",
}}).encode()  # fmt: skip


class ConnectionBook:
    """The open connections of a server.

    Args:
        most: connections at a time.
        receive_seconds, stalled_seconds: as `Limits`.
    """

    def __init__(self, most: int, receive_seconds: float, stalled_seconds: float) -> None:
        self.most, self.receive_seconds, self.stalled_seconds = most, receive_seconds, stalled_seconds
        # Both in the order in which they began to be so.
        self.open: dict[HttpConnection, None] = {}
        self.waiting: dict[HttpConnection, None] = {}

    def enter(self, new: "HttpConnection") -> bool:
        """Take a new connection in, if need be in another's place; return whether there was one."""
        if len(self.open) >= self.most:
            oldest = next(iter(self.waiting), None)
            if oldest is None:
                return False
            self.leave(oldest)
            oldest.transport.abort()
        self.open[new] = self.waiting[new] = None
        return True

    def leave(self, connection: "HttpConnection") -> None:
        """Strike out a connection that is closed."""
        self.open.pop(connection, None)
        self.waiting.pop(connection, None)


class HttpConnection(H11Protocol):
    """One connection: uvicorn's, with deadlines.

    Args:
        book: the server's.
    """

    def __init__(self, *arguments: Any, book: ConnectionBook, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.timeout_keep_alive = _KEEP_ALIVE_SECONDS
        self.book, self._deadline, self._stalled = book, None, None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take a client's connection, or send it away."""
        # Without it a short answer waits for the client to confirm the piece before, 40 ms on Linux.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        if self.book.enter(self):
            self._expect_request()
            return
        head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
        transport.write(f"{head}content-length: {len(_NO_ROOM)}\r\nconnection: close\r\n\r\n".encode() + _NO_ROOM)
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up."""
        self.book.leave(self)
        self._deadline, self._stalled = _cancelled(self._deadline), _cancelled(self._stalled)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what a client sends."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_incomplete:
            if self._deadline is None:  # the first byte of another request; those that follow gain no time
                self._expect_request()
        else:
            self._deadline = _cancelled(self._deadline)
            self.book.waiting.pop(self, None)

    def on_response_complete(self) -> None:
        """Wait for the next request; whoever comes meanwhile may have the place."""
        super().on_response_complete()
        self._deadline = _cancelled(self._deadline)
        if self in self.book.open and self._is_incomplete:
            self.book.waiting[self] = None

    def pause_writing(self) -> None:
        """The client reads slower than it is written to."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.book.stalled_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads."""
        self._stalled = _cancelled(self._stalled)
        super().resume_writing()

    @property
    def _is_incomplete(self) -> bool:
        """Whether it is the client's turn: no request is there, or not all of it."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _expect_request(self) -> None:
        """Begin to wait for a request's headers; its body has a deadline of its own, where it is read."""
        self._deadline = _cancelled(self._deadline)
        self.book.waiting[self] = self.book.waiting.pop(self, None)
        self._deadline = self.loop.call_later(self.book.receive_seconds, self._too_late)

    def _too_late(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
