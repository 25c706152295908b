"""One exercise in a fork: started, watched and, where need be, ended from outside."""

import gc
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from .bench import examine
from .isolation import PLAIN, enter, hide, set_limits, step_down
from .messages import PATIENCE, Channel, Closed, Settings
from .seal import Seal

_LOOK = 0.25  # seconds between two looks at a fork's memory
_ROOM_TO_MAP = 8 << 30  # bytes of addresses beyond those that the warm process has


class Fork:
    """Grades one request in a fork and hands on what it says to the judge."""

    def __init__(self, settings: Settings, judge: Channel, seal: Seal) -> None:
        self.settings, self.judge, self.seal = settings, judge, seal

    def grade(self, session: pytest.Session, request: dict[str, Any]) -> None:
        """Run one request to its end, whatever the answer does; the judge's last message is of the kind "end"."""
        before = _cpu_seconds()
        with tempfile.TemporaryDirectory() as folder:
            (down, to_child), (from_child, up) = os.pipe(), os.pipe()
            child = os.fork()
            if child == 0:
                self._be_the_child(session, request, folder, Channel(down, up), (to_child, from_child))
            os.close(down)
            os.close(up)
            watch, how = _Watch(child, Channel(from_child, to_child), self.settings), "done"
            try:
                how = watch.relay(self.judge)
            finally:
                by_itself = watch.end(at_once=how not in ("", "done"))
                os.close(to_child)
                os.close(from_child)
        self.judge.send({"kind": "end", "how": how or by_itself, "cpu": _cpu_seconds() - before})

    def _be_the_child(
        self, session: pytest.Session, request: dict[str, Any], folder: str, channel: Channel, others: tuple[int, int]
    ) -> None:
        code = 3
        try:
            for descriptor in (*others, self.judge.down, self.judge.up):
                os.close(descriptor)
            os.dup2(1, 2)  # nowhere, as the standard output
            self._isolate(request)
            gc.disable()
            where = folder if self.settings.isolation == PLAIN else "/tmp"
            os.chdir(where)
            tempfile.tempdir = os.environ["TMPDIR"] = where  # the server's own is closed to a fork
            examine(session, request, Path(where), channel, self.seal)
            code = 0
        except BaseException as error:
            with suppress(Exception):
                channel.send({"kind": "fault", "said": f"{type(error).__name__}: {error}"})
        finally:
            os._exit(code)

    def _isolate(self, request: dict[str, Any]) -> None:
        settings = self.settings
        address_space = psutil.Process().memory_info().vms + _ROOM_TO_MAP
        if settings.isolation == PLAIN:
            os.setsid()
        else:
            enter(settings.isolation, settings.uid)
            hide(request["hidden"])
            step_down(settings.isolation, settings.uid)
        if sys.platform == "linux":
            set_limits(address_space, settings.processes)


class _Watch:
    """The outside of a fork: its messages, its clock, its memory, its end."""

    def __init__(self, child: int, channel: Channel, settings: Settings) -> None:
        self.child, self.channel, self.settings = child, channel, settings
        self.word = secrets.token_hex(16)
        self._start()

    def _start(self) -> None:
        """Begin to count the time."""
        self._wall, self._computed = time.monotonic(), _of_all(_computed)

    def _is_late(self) -> bool:
        passed, limit = time.monotonic() - self._wall, self.settings.limits.seconds
        return passed > PATIENCE * limit or (passed > limit and _of_all(_computed) - self._computed > limit)

    def relay(self, judge: Channel) -> str:
        """Hand on the two messages of a fork; return "done", what was wrong, or "" where it ended by itself."""
        try:
            self.channel.send({"word": self.word})
            for kind in ("answer", "canary"):
                message = self._next()
                if isinstance(message, str):
                    return message
                if message.get("kind") == "fault":
                    return f"fault: {message.get('said')}"
                if message.pop("word", None) != self.word or message.get("kind") != kind:
                    return "forged"
                judge.send(message)
                if kind == "answer":
                    self.channel.send(judge.receive() or {})
                    self._start()  # the canary has a time of its own
        except Closed:
            return ""
        except ValueError:
            return "forged"
        return "done"

    def _next(self) -> dict[str, Any] | str:
        while (message := self.channel.receive(_LOOK)) is None:
            if _of_all(_bytes) > self.settings.limits.gigabytes * 1e9:
                return "memory"
            if self._is_late():
                return "time"
        return message

    def end(self, at_once: bool) -> str:
        """End a fork with all that it has started; return how it ended, by itself where it did."""
        status = self._ended(0.0 if at_once else _LOOK)
        if status is None:
            os.kill(self.child, signal.SIGKILL)
            _, status = os.waitpid(self.child, 0)
        while rest := _descendants():  # of a namespace all end with the first, soon; elsewhere one by one
            for process in rest:
                with suppress(psutil.Error):
                    process.kill()
            with suppress(OSError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.005)
        return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"

    def _ended(self, seconds: float) -> int | None:
        """The fork's own end, where it comes within some seconds; a closed pipe is no end."""
        until = time.monotonic() + seconds
        while True:
            found, status = os.waitpid(self.child, os.WNOHANG)
            if found:
                return status
            if time.monotonic() >= until:
                return None
            time.sleep(0.01)


def _descendants() -> list[psutil.Process]:
    """Every process that has come out of this one; orphans are this one's children again (`adopt_orphans`)."""
    with suppress(psutil.Error):
        return psutil.Process().children(recursive=True)
    return []


def _cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _of_all(what: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in _descendants():
        with suppress(psutil.Error):
            total += what(process)
    return total


def _bytes(process: psutil.Process) -> float:
    return process.memory_info().rss


def _computed(process: psutil.Process) -> float:
    """Processor seconds of a process and of its children that have ended."""
    return sum(process.cpu_times()[:4])
