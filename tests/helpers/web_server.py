"""A server behind a real socket, in a thread of its own."""

import signal
import threading
from contextlib import contextmanager

import httpx
from serving import ALPHABET, PATIENCE_SECONDS
from successor_model import byte_tokenizer, successor_model

from nanolm.engine import Engine
from nanolm.serving import AsyncEngine, build_app
from nanolm.web import Limits, WebServer, listen


class Running:
    """A server on a free loopback port, in a thread of its own."""

    def __init__(self, model, grace_seconds=0.0, max_waiting=64, limits=None, tokenizer=None, **engine_options):
        limits = limits or Limits(grace_seconds=grace_seconds)
        self.engine = Engine(model, **{"n_blocks": 64, **engine_options})
        self.thread = AsyncEngine(self.engine, max_waiting)
        app = build_app(self.thread, tokenizer or byte_tokenizer(), "tiny", limits)
        self.listener = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.server = WebServer(app, lambda: self.thread.drain(grace_seconds), limits)
        self.book = self.server.book
        self._runner = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]})
        self._runner.start()

    def terminate(self):
        """What SIGTERM does."""
        self.server.handle_exit(signal.SIGTERM, None)

    def join(self):
        self._runner.join(PATIENCE_SECONDS)
        assert not self._runner.is_alive(), "the server does not end"

    def wait_until_idle(self):
        ended = threading.Event()
        for _ in range(PATIENCE_SECONDS * 100):
            if not self.thread.n_open:
                return
            ended.wait(0.01)
        raise AssertionError(f"{self.thread.n_open} requests are still open")


@contextmanager
def running(model=None, **options):
    server = Running(model or successor_model(ALPHABET), **options)
    try:
        httpx.get(f"{server.url}/health", timeout=PATIENCE_SECONDS)  # it listens already: this waits until it answers
        yield server
    finally:
        if not server.server.should_exit:
            server.terminate()
        server.join()
        server.listener.close()
