"""The application under uvicorn: one listening socket, and an orderly end on SIGINT or SIGTERM."""

import asyncio
import math
import signal
import socket
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from .async_engine import AsyncEngine

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
        raise OSError(f"cannot listen at {host}, port {port}: {error.strerror or error}") from None


class WebServer(uvicorn.Server):
    """Serves until SIGINT or SIGTERM; then refuses, lets the requests under way end, and returns from `run`.

    `run(sockets=[listener])` closes the listener in the end.

    Args:
        thread: the application's.
        grace_seconds: for the requests under way; those left after it are ended with an error. A second SIGINT waits
            for nobody.
    """

    def __init__(self, app: ASGIApp, thread: AsyncEngine, grace_seconds: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                http="h11",
                loop="asyncio",
                lifespan="on",
                log_level="warning",
                server_header=False,
                timeout_graceful_shutdown=math.ceil(grace_seconds) + _LAST_WORDS_SECONDS,
            )
        )
        self._engine_thread, self._grace_seconds = thread, grace_seconds
        self._draining: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve in the running loop."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal. Not uvicorn's way, which is to raise it again in the end: nothing is left to die of then."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        """Refuse at once on connections that are open; uvicorn itself only stops taking new ones."""
        if self._draining is None:
            self._draining = self._loop.create_task(self._engine_thread.drain(self._grace_seconds))
