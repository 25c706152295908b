"""Limits of time and memory around a test of an answer: a loop without an end must cost seconds, not the evening.

Time: an alarm signal, where there is one and the test runs in the main thread; else a second thread that raises the
error in it, which reaches Python code though not a call that never comes back. Memory: the same thread looks how much
the process has grown; on Linux the system itself also refuses what goes far beyond.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

TEST_SECONDS = float(os.environ.get("NANOLM_TEST_SECONDS", "20"))
TEST_GIGABYTES = 3.0
_LOOK = 0.05  # seconds between two looks


class TimeUp(BaseException):
    """The time limit, raised inside the test that was running; no `except Exception` of an answer can catch it."""

    seconds: float = 0.0  # set where it is raised: it is raised as a class, by another thread


class MemoryUp(BaseException):
    """The memory limit, likewise."""


@contextlib.contextmanager
def limits(seconds: float = TEST_SECONDS, gigabytes: float = TEST_GIGABYTES) -> Iterator[None]:
    """Raise TimeUp after some seconds, MemoryUp when the process has grown by some GB (10⁹ bytes)."""
    TimeUp.seconds = seconds
    has_alarm = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    clock = _alarm(seconds) if has_alarm else contextlib.nullcontext()
    with _address_space(gigabytes), _watcher(None if has_alarm else seconds, gigabytes), clock:
        yield


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """An alarm; one that was set before still rings at its time, or at once where that has passed."""

    def ring(number, frame):
        TimeUp.seconds = seconds
        raise TimeUp

    started = time.monotonic()
    before, (left, again) = signal.signal(signal.SIGALRM, ring), signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, left) if left else seconds)
    try:
        yield
    finally:
        remaining = max(1e-3, left - (time.monotonic() - started)) if left else 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, remaining, again)


@contextlib.contextmanager
def _watcher(seconds: float | None, gigabytes: float) -> Iterator[None]:
    """A thread that looks at the process's memory, and at the clock where no alarm does."""
    thread, done = threading.get_ident(), threading.Event()
    most, end = _resident_bytes() + gigabytes * 1e9, None if seconds is None else time.monotonic() + seconds

    def watch() -> None:
        while not done.wait(_LOOK):
            up = (
                TimeUp if end is not None and time.monotonic() > end else MemoryUp if _resident_bytes() > most else None
            )
            if up is not None and not done.is_set():
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
