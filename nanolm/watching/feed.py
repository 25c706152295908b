"""Frames for many watchers: made once, queued for each, and dropped for whoever reads too slowly."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

from ..engine.engine import Engine
from .camera import Camera, Frame
from .recording import Recording

MOST_WATCHERS = 32
MOST_QUEUED = 16  # frames of a watcher
_LEAST_PAUSE, _MOST_PAUSE = 0.1, 2.0  # seconds between two frames
_MOST_SHARE = 0.005  # of the engine's time that frames may take
_ALIVE_SECONDS = 15.0  # without news, after which a watcher hears that there is none


class Full(Exception):
    """As many watch as may, or nobody may any more."""


class Watcher:
    """Somebody who watches: frames that wait for them, as text.

    Attributes:
        n_lost: frames dropped since the last one that was read.
    """

    def __init__(self) -> None:
        self.n_lost = 0
        self._frames: deque[str] = deque()
        self._news = asyncio.Event()
        self._is_over = False

    def give(self, frame: str) -> None:
        """Queue a frame; where too many wait the oldest is lost."""
        self._frames.append(frame)
        if len(self._frames) > MOST_QUEUED:
            self._frames.popleft()
            self.n_lost += 1
        self._news.set()

    def end(self) -> None:
        """Let `events` end once everything is read."""
        self._is_over = True
        self._news.set()

    async def events(self) -> AsyncGenerator[str, None]:
        """Yield server-sent events: `lost` with a number where frames were dropped, `frame`, and comments between."""
        while True:
            if self.n_lost:
                n, self.n_lost = self.n_lost, 0
                yield f"event: lost\ndata: {n}\n\n"
            if self._frames:
                yield f"event: frame\ndata: {self._frames.popleft()}\n\n"
                continue
            if self._is_over:
                return
            self._news.clear()
            try:
                async with asyncio.timeout(_ALIVE_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                yield ": nothing new\n\n"


class Feed:
    """An engine's frames for whoever watches. It belongs to the event loop; the camera is the engine thread's.

    Args:
        call: lets the engine's thread do something between two passes.
        word: returns a token's text, where everybody may read everything; then they may stop the engine, too.
        recording: gets a frame of every pass, also while nobody watches.
    """

    def __init__(
        self,
        engine: Engine,
        call: Callable[[Callable[[], None]], None],
        word: Callable[[int], str] | None = None,
        recording: Recording | None = None,
    ) -> None:
        self.camera = Camera(engine, self._send, word, every_pass=recording is not None)
        self.may_steer, self.recording = word is not None, recording
        self.watchers: set[Watcher] = set()
        self._call, self._is_closed = call, False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clock: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin in the running loop."""
        self._loop = asyncio.get_running_loop()
        if self.recording is not None:
            self._call(self.camera.turn_on)

    def close(self) -> None:
        """Let everybody go, and nobody in: watchers would keep a server from ending, and so would a stopped engine."""
        self._is_closed = True
        for watcher in list(self.watchers):
            watcher.end()
            self.leave(watcher)

    def enter(self) -> Watcher:
        """Return a new watcher, who gets a frame at once.

        Raises:
            Full: MOST_WATCHERS are here, or the feed is closed.
        """
        if self._is_closed:
            raise Full("the server is shutting down")
        if len(self.watchers) >= MOST_WATCHERS:
            raise Full(f"{len(self.watchers)} watch already; at most {MOST_WATCHERS} may")
        watcher = Watcher()
        self.watchers.add(watcher)
        self._call(self.camera.turn_on)
        if self._clock is None:
            self._clock = asyncio.ensure_future(self._tick())
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Take a watcher out; without any the engine goes at full speed, and nothing is built."""
        self.watchers.discard(watcher)
        if self.watchers:
            return
        self.camera.pace.run()
        if self.recording is None:
            self._call(self._turn_off)
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _turn_off(self) -> None:
        if not self.watchers:  # nobody has come meanwhile
            self.camera.turn_off()

    async def _tick(self) -> None:
        """Ask for frames, the more seldom the longer one takes."""
        while True:
            await asyncio.sleep(min(_MOST_PAUSE, max(_LEAST_PAUSE, self.camera.cost / _MOST_SHARE)))
            self._call(self.camera.flush_new)

    def _send(self, frame: Frame) -> None:
        """Hand a frame to the loop; in the engine's thread."""
        if self.recording is not None:
            self.recording.add(frame)
        if not self.watchers or self._loop is None:
            return
        text = json.dumps(frame, separators=(",", ":"), ensure_ascii=False)
        with suppress(RuntimeError):  # there is no loop any more
            self._loop.call_soon_threadsafe(self._deliver, text)

    def _deliver(self, text: str) -> None:
        for watcher in self.watchers:
            watcher.give(text)


def steer(feed: Feed, asked: Any) -> None:
    """Set the engine's pace as a client asks: {"seconds": 0.5}, {"stop": true} or {"step": true}.

    Raises:
        ValueError: it asks for something else.
    """
    pace = feed.camera.pace
    if asked == {"stop": True}:
        pace.stop()
    elif asked == {"step": True}:
        pace.step()
    elif isinstance(asked, dict) and asked.keys() == {"seconds"} and type(asked["seconds"]) in (int, float):
        pace.run(asked["seconds"])
    else:
        raise ValueError('the body must be {"seconds": a number}, {"stop": true} or {"step": true}')
