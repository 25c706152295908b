"""The engine in a thread of its own, for a server whose event loop must never wait for a pass.

Only the thread touches the engine, and only the loop touches the books of who is served. Commands go to the engine
through a queue, and outputs come back through `call_soon_threadsafe`, those of a pass together. So there is no lock,
and a client that vanishes is one more command: abort.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any

from ..engine.engine import Engine
from ..engine.request import Output
from ..machine.threads import Threads
from .gauges import gauges_of
from .metrics import ServerMetrics
from .request_group import Busy, NotServing, RequestGroup

_log = logging.getLogger("nanolm")


class AsyncEngine:
    """Runs an engine for an event loop.

    Args:
        engine: nobody else may use it between `start` and `close`.
        max_waiting: requests that may wait, beyond those that the engine runs at a time.
        threads: chooses, in the engine's thread and while it has nothing to do, how many threads a pass gets.

    Attributes:
        metrics: what has been served.
        state: "new", "serving", "draining" or "broken"; "closed" in the end.
        on_drain: is called when it begins to drain.
    """

    def __init__(self, engine: Engine, max_waiting: int = 64, threads: Threads | None = None) -> None:
        self.engine, self.metrics, self.state = engine, ServerMetrics(self.gauges), "new"
        self.threads = threads
        self.on_drain: Callable[[], None] = lambda: None
        self.max_open = engine.scheduler.max_running + max_waiting
        self._open: set[RequestGroup] = set()
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._where: dict[int, tuple[RequestGroup, int]] = {}  # the thread's: engine number -> group, index
        self._leaving = False
        # A daemon: an interrupt that skips `close` must not leave a process that never ends.
        self._thread = threading.Thread(target=self._run, name="nanolm-engine", daemon=True)

    @property
    def n_open(self) -> int:
        """Requests taken that have not ended."""
        return sum(len(group.going) for group in self._open)

    def gauges(self) -> dict[str, float]:
        """Return numbers that hold for this moment, by name. Each is one look: the thread goes on meanwhile."""
        found = {"open_requests": self.n_open, **gauges_of(self.engine)}
        if self.threads and self.threads.choice:
            found["threads"] = self.threads.choice.threads
        return found

    def call(self, command: Callable[[], None]) -> None:
        """Let the engine's thread do something between two passes; it must not raise."""
        self._commands.put(command)

    def start(self) -> None:
        """Begin to serve the running event loop."""
        self._loop, self.state = asyncio.get_running_loop(), "serving"
        self._idle, self._ended = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._thread.start()

    async def submit(self, requests: Sequence[Mapping[str, Any]]) -> RequestGroup:
        """Hand requests to the engine, all of them or none; return their group.

        Args:
            requests: the arguments of `Engine.add_request`, one mapping a request.

        Raises:
            Busy: there is no place for so many.
            NotServing: no requests are taken.
            ValueError: what `add_request` refuses; more requests than there will ever be places for.
        """
        if self.state != "serving":
            raise NotServing(f"the server is {self.state}")
        if len(requests) > self.max_open:
            raise ValueError(f"n makes {len(requests)} requests; at most {self.max_open} may run or wait")
        if self.n_open + len(requests) > self.max_open:
            raise Busy(f"{self.n_open} requests run or wait; at most {self.max_open} may")
        group = RequestGroup(requests)
        self._open.add(group)
        self._idle.clear()
        self._commands.put(partial(self._add, group))
        try:
            await group.accepted
        except asyncio.CancelledError:
            self.abort(group)
            raise
        return group

    def abort(self, group: RequestGroup, why: str | None = None) -> None:
        """Call off what of the group has not ended; its listener gets outputs with the reason "abort" and `why`."""
        if group in self._open:
            self._commands.put(partial(self._abort, group, why))

    async def drain(self, grace_seconds: float) -> None:
        """Take no more requests and let those taken end; abort what is left after the grace period."""
        self.state = "draining" if self.state == "serving" else self.state
        self.on_drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._idle.wait()
        for group in list(self._open):
            self.abort(group, "the server is shutting down; the request was ended before its time")

    async def close(self, grace_seconds: float = 0.0) -> None:
        """Drain, then end the thread and wait for it. A second call does nothing."""
        if self.state in ("new", "closed"):
            return
        await self.drain(grace_seconds)
        self._commands.put(self._leave)
        await self._ended.wait()
        self._thread.join()
        self.state = "closed"

    def _settle(self, group: RequestGroup, error: Exception | None) -> None:
        group.settle(error)
        if error is not None:
            self._forget(group)

    def _deliver(self, outputs: Sequence[tuple[RequestGroup, int, Output]]) -> None:
        for group, index, output in outputs:
            group.deliver(index, output)
            if not group.going:
                self._forget(group)

    def _forget(self, group: RequestGroup) -> None:
        self._open.discard(group)
        if not self._open:
            self._idle.set()

    def _on_end(self, broken: bool) -> None:
        """The thread has ended. Whoever still waits must hear of it, or would wait for ever."""
        self.state = "broken" if broken else self.state
        why = "the engine has broken down; the server must be started anew"
        for group in list(self._open):
            group.settle(NotServing(why))
            self._deliver([(group, i, Output(-1, finish_reason="error", error=why)) for i in sorted(group.going)])
        self._ended.set()

    def _run(self) -> None:
        broken = True
        try:
            while not self._leaving:
                self._obey()
                if self.engine.has_work:
                    self._step()
            broken = False
        except BaseException:
            _log.exception("the engine's thread has ended; no request is served any more")
        finally:
            self._post(self._on_end, broken)

    def _obey(self) -> None:
        """Carry out the commands there are; without work, sleep until there is one."""
        with suppress(queue.Empty):
            if not self.engine.has_work:
                if self.threads:
                    self.threads.between_requests()
                self._commands.get()()
            while True:
                self._commands.get_nowait()()

    def _step(self) -> None:
        try:
            outputs = self.engine.step()
        except Exception as error:
            _log.exception("a pass failed")
            outputs = self._give_up(f"a pass failed with {type(error).__name__}; the server's log says more")
        else:
            self.metrics.count_step(self.engine.records)
        self._report(outputs)

    def _give_up(self, why: str) -> list[Output]:
        """End the requests that a failed pass may have harmed: those that ran, and those whose last output is lost."""
        running = {request.id for request in self.engine.scheduler.running}
        harmed = [i for i in self._where if i in running or not self._is_served(i)]
        harmed = harmed or list(self._where)  # it failed before anybody ran: no pass is to be had with these
        for i in harmed:
            self.engine.abort(i)
        return [Output(i, finish_reason="error", error=why) for i in harmed]

    def _is_served(self, request_id: int) -> bool:
        with suppress(ValueError):
            return self.engine.request(request_id) is not None
        return False

    def _add(self, group: RequestGroup) -> None:
        try:
            self._take(group)
        except Exception as error:
            for i in group.ids:
                self.engine.abort(i)
            self._post(self._settle, group, error)
            return
        self._where |= {i: (group, index) for index, i in enumerate(group.ids)}
        self._post(self._settle, group, None)

    def _take(self, group: RequestGroup) -> None:
        """Hand a group's requests to the engine; answers to one prompt run it once."""
        for common, several in groupby(group.requests, _without_own):
            own = [(each.get("seed"), each.get("stop")) for each in several]
            if len(own) > 1:
                seeds, stops = zip(*own, strict=True)
                group.ids.extend(self.engine.add_group(**common, seeds=seeds, stops=stops))
            else:
                group.ids.append(self.engine.add_request(**common, seed=own[0][0], stop=own[0][1]))

    def _abort(self, group: RequestGroup, why: str | None) -> None:
        going = [i for i in group.ids if i in self._where]
        for i in going:
            self.engine.abort(i)
        self._report([Output(i, finish_reason="abort", error=why) for i in going])

    def _report(self, outputs: Sequence[Output]) -> None:
        if not outputs:
            return
        addressed = [(*self._where[output.id], output) for output in outputs]
        for output in outputs:
            if output.finish_reason is not None:
                self.metrics.count_end(output)
                del self._where[output.id]
        self._post(self._deliver, addressed)

    def _leave(self) -> None:
        self._leaving = True

    def _post(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Let the loop call something, unless there is no loop any more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)


def _without_own(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a request has in common with other answers to its prompt."""
    return {name: value for name, value in request.items() if name not in ("seed", "stop")}
