"""A server from the judge's side: started, asked, and started again when it is lost."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psutil

from ..errors import CourseError
from ..registry import Exercise, registry
from .isolation import AS_ROOT, FIRST_UID, PROCESSES, SPAWN
from .messages import PATIENCE, Limits, Settings
from .sandbox import command, outside

_TO_START = 300  # seconds; torch and all tests are read, on a machine that may be busy
_MORE = 30  # seconds beyond a server's own limit, after which the server itself is lost
# A box ends with the thread that has started it (`--die-with-parent`), so this one does, which lives as long as Python.
_starter = ThreadPoolExecutor(1, "starts servers")


class Lost(Exception):
    """The server has ended, or says nothing more; `how`, as an answer's own process ends."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Worker:
    """One server process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the server
        box = command(settings.isolation, settings.limits.test_seconds)
        line = [*box, sys.executable, "-m", "course.judge.server", settings.write()]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        environment = outside(settings.isolation, settings.limits.test_seconds)
        self.process = _starter.submit(subprocess.Popen, line, env=environment, **pipes).result()
        self.lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True, name="what a server says").start()
        hello = self._first()
        self.tests: dict[str, tuple[str, ...]] = {name: tuple(each) for name, each in hello["tests"].items()}

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def _first(self) -> dict[str, Any]:
        try:
            hello = self.receive(_TO_START)
        except Lost:
            hello = {"said": ""}
        if hello.get("kind") != "ready":
            said = hello.get("said") or self._errors()
            self.close()
            raise CourseError(f"the judge's server does not start: {said}")
        return hello

    def _errors(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message.

        Raises:
            Lost: the server has ended.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Lost(self._end()) from error

    def receive(self, seconds: float | None = None) -> dict[str, Any]:
        """Return the next message.

        Raises:
            Lost: the server has ended, or has said nothing for longer than any exercise takes.
        """
        try:
            line = self.lines.get(
                timeout=2 * PATIENCE * self.settings.limits.seconds + _MORE if seconds is None else seconds
            )
        except queue.Empty:
            raise Lost("time") from None
        if not line:
            raise Lost(self._end())
        return json.loads(line)

    def _end(self) -> str:
        code = self.process.wait()
        return f"signal {-code}" if code < 0 else f"exit {code}"

    def close(self) -> None:
        """End the server with all its forks."""
        with suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.errors.close()


class Seat:
    """A place for a server, which is started when it is needed and knows the tests of the weeks that were asked.

    Args:
        isolation: of its forks.
        number: of the seat.
        limits: of one exercise.
    """

    def __init__(self, isolation: str, number: int, limits: Limits) -> None:
        self.isolation, self.number, self.limits = isolation, number, limits
        self.cpu_seconds = 0.0  # of all forks so far
        self._worker: Worker | None = None
        self._weeks: set[int] = set()

    def worker(self, exercise: Exercise) -> Worker:
        """Return a server that has read the tests of this exercise.

        Raises:
            CourseError: it does not start.
        """
        if self._worker is not None and (exercise.week not in self._weeks or self._worker.process.poll() is not None):
            self.close()
        if self._worker is None:
            self._weeks.add(exercise.week)
            self._worker = Worker(self._settings(exercise))
        return self._worker

    def give_back(self, worker: Worker) -> None:
        """Say that a server has graded one exercise: where processes are spawned, it grades no other."""
        if worker.settings.isolation == SPAWN:
            self.close()

    def _settings(self, exercise: Exercise) -> Settings:
        if self.isolation == SPAWN:
            return Settings((exercise.number,), SPAWN, limits=self.limits)
        asked = tuple(each.number for each in registry() if each.week in self._weeks)
        if self.isolation == AS_ROOT:
            return Settings(asked, AS_ROOT, FIRST_UID + 64 * os.getpid() + self.number, PROCESSES, self.limits)
        return Settings(asked, self.isolation, 0, PROCESSES + _threads_of_this_user(), self.limits)

    def close(self) -> None:
        """End the server, if there is one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _threads_of_this_user() -> int:
    """How many there are: the system counts them all together where it limits processes."""
    me, total = psutil.Process().username(), 0
    for process in psutil.process_iter(["username", "num_threads"]):
        total += (process.info["num_threads"] or 0) if process.info["username"] == me else 0
    return total
