"""Limits of time and memory around a test of an answer: a loop without an end must cost seconds, not the evening.

Time: an alarm signal, where there is one and the test runs in the main thread; else a second thread that raises the
error in it, which reaches Python code though not a call that never comes back. Memory: the same thread looks how much
the process has grown; on Linux the system itself also refuses what goes far beyond.

Seconds are those that the answer's thread computes, not those on the wall: a busy machine makes no right answer late.
One that computes nothing, since it sleeps or waits, is broken off after six times as long.

In a browser's tab there is no alarm and no second thread: who has opened it is told, and ends it (`outside`).
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

TEST_SECONDS = float(os.environ.get("NANOLM_TEST_SECONDS", "20"))
TEST_GIGABYTES = 3.0
_PATIENCE = 6  # times the limit, on the wall
_LOOK = 0.05  # seconds between two looks
_IN_TAB = sys.platform == "emscripten"
_this_thread = getattr(threading, "get_native_id", threading.get_ident)  # a tab has neither the first of these
_seconds_computed = getattr(time, "thread_time", time.monotonic)
outside: Callable[[float], object] = float  # in a tab: told the seconds that may pass; whoever listens takes its place


class TimeUp(BaseException):
    """The time limit, raised inside the test that was running; no `except Exception` of an answer can catch it."""

    seconds: float = 0.0  # set where it is raised: it is raised as a class, by another thread


class MemoryUp(BaseException):
    """The memory limit, likewise."""


class Clock:
    """What is left of a limit of time, for the thread that makes it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._thread = _this_thread()
        self._computed, self._wall = self._now(), time.monotonic()

    def _now(self) -> float:
        """Seconds that the thread has computed."""
        if _this_thread() == self._thread:
            return _seconds_computed()
        import psutil

        return next(
            (each.user_time + each.system_time for each in psutil.Process().threads() if each.id == self._thread), 0.0
        )

    def left(self) -> float:
        """Return the seconds after which the limit may be met; 0 or less: it is."""
        passed = time.monotonic() - self._wall
        return min(self.seconds - (self._now() - self._computed), _PATIENCE * self.seconds - passed)


@contextlib.contextmanager
def limits(seconds: float = TEST_SECONDS, gigabytes: float = TEST_GIGABYTES) -> Iterator[Clock]:
    """Raise TimeUp after some seconds, MemoryUp when the process has grown by some GB (10⁹ bytes); give the clock."""
    clock = Clock(seconds)
    if _IN_TAB:
        outside(seconds)
        yield clock
        return
    has_alarm = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    alarm = _alarm(clock) if has_alarm else contextlib.nullcontext()
    with _address_space(gigabytes), _watcher(None if has_alarm else clock, gigabytes), alarm:
        yield clock


_ringing: list[Clock] = []  # one inside the other; whichever is up first ends what runs


@contextlib.contextmanager
def _alarm(clock: Clock) -> Iterator[None]:
    """An alarm; one that was set before rings afterwards, at once where its time has passed."""

    def ring(number, frame):
        first = min(_ringing, key=Clock.left)
        if first.left() <= 0:
            TimeUp.seconds = first.seconds
            raise TimeUp
        signal.setitimer(signal.ITIMER_REAL, max(first.left(), _LOOK))

    started = time.monotonic()
    before, (left, again) = signal.signal(signal.SIGALRM, ring), signal.getitimer(signal.ITIMER_REAL)
    _ringing.append(clock)
    signal.setitimer(signal.ITIMER_REAL, max(min(map(Clock.left, _ringing)), _LOOK))
    try:
        yield
    finally:
        _ringing.remove(clock)
        remaining = max(1e-3, left - (time.monotonic() - started)) if left else 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, remaining, again)


@contextlib.contextmanager
def _watcher(clock: Clock | None, gigabytes: float) -> Iterator[None]:
    """A thread that looks at the process's memory, and at the clock where no alarm does."""
    thread, done = threading.get_ident(), threading.Event()
    most = _resident_bytes() + gigabytes * 1e9

    def watch() -> None:
        while not done.wait(_LOOK):
            up = TimeUp if clock and clock.left() <= 0 else MemoryUp if _resident_bytes() > most else None
            if up is not None and not done.is_set():
                TimeUp.seconds = clock.seconds if clock else 0.0
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(up))
                return

    watching = threading.Thread(target=watch, daemon=True, name="limits of a test")
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


def _resident_bytes() -> int:
    import psutil

    return psutil.Process().memory_info().rss


@contextlib.contextmanager
def _address_space(gigabytes: float) -> Iterator[None]:
    """Where the system can refuse memory (Linux), let it refuse what no test needs: one call may ask for all of it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():  # whose driver reserves addresses by the hundred GB
        yield
        return
    try:
        import resource

        import psutil

        old = resource.getrlimit(resource.RLIMIT_AS)
        now = psutil.Process().memory_info().vms
        most = int(now + 2 * gigabytes * 1e9)
        resource.setrlimit(
            resource.RLIMIT_AS, (most if old[1] == resource.RLIM_INFINITY else min(most, old[1]), old[1])
        )
    except (ImportError, ValueError, OSError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)
