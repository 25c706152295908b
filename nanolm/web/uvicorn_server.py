"""An application under uvicorn: one listening socket, and an orderly end on SIGINT or SIGTERM."""

import asyncio
import errno
import math
import signal
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from .connections import ConnectionBook, HttpConnection
from .limits import Limits, open_files_allowed, room_for

# Beyond the grace period, for answers that were ended to reach their clients.
_LAST_WORDS_SECONDS = 5


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one.

    Raises:
        OSError: the port is taken, or the host is not this machine's; the message names both.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise OSError(f"cannot listen at {host}, port {port}: {why}") from None


class WebServer(uvicorn.Server):
    """Serves until SIGINT or SIGTERM; then drains, and returns from `run`.

    While it drains it answers still, so that newcomers are told to come back; the application knows how. A second
    SIGINT waits for nobody. `run(sockets=[listener])` closes the listener in the end.

    Args:
        drain: ends when the requests under way have, or the grace period is over.
        on_ready: is called once requests and signals are heard; who is told so may end the process at once.

    Attributes:
        book: the connections.
    """

    def __init__(
        self,
        app: ASGIApp,
        drain: Callable[[], Awaitable[None]],
        limits: Limits,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        n_connections, backlog = room_for(limits.max_connections, open_files_allowed())
        self.book = ConnectionBook(n_connections, limits.receive_seconds, limits.stalled_seconds)
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                http=partial(HttpConnection, book=self.book),  # pyright: ignore[reportArgumentType]  called, as a class is
                loop="asyncio",
                lifespan="on",
                log_level="error",  # what is wrong with requests is told to who sends them
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=backlog,
                timeout_graceful_shutdown=math.ceil(limits.grace_seconds) + _LAST_WORDS_SECONDS,
            )
        )
        self._drain, self._on_ready = drain, on_ready
        self._draining: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve in the running loop."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so; by now `capture_signals` has put the handlers in place."""
        await super().startup(sockets)
        self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal. Not uvicorn's way, which is to raise it again in the end: nothing is left to die of then."""
        if self._draining is not None and sig == signal.SIGINT:
            self.force_exit = self.should_exit = True
        self._loop.call_soon_threadsafe(self._begin_to_drain)

    def _begin_to_drain(self) -> None:
        if self._draining is None:
            self._draining = self._loop.create_task(self._drain_and_exit())

    async def _drain_and_exit(self) -> None:
        try:
            await self._drain()
        finally:
            self.should_exit = True
