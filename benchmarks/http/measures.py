"""The three measurements: each starts `nanolm serve` as a process, asks it, and returns seconds by name."""

import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from typing import IO, Any

GOALS = {"http_adds": 2e-3, "health_under_bodies": 50e-3, "health_under_silence": 50e-3}  # seconds, of the median
PROMPT = "ROMEO\nBut soft, what light through yonder window breaks? "
LARGE = 250_000  # characters: the body stays below the server's limit


@contextmanager
def served(model: str, most_files: int | None = None) -> Iterator[tuple[int, str, IO[str]]]:
    """Give a server's port, its model's name and its log, a line of JSON a request."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({most_files}, {most_files})); "
    command = f"{limit if most_files else ''}from nanolm.cli import app; app()"
    options = ["serve", model, "--port", "0", "--log-requests"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    with subprocess.Popen([sys.executable, "-u", "-c", command, *options], **pipes) as server:
        try:
            assert server.stderr is not None and server.stdout is not None
            line = server.stderr.readline()
            name, _, where = line.removeprefix("nanolm: ").partition(" is served at http://127.0.0.1:")
            yield int(where.partition("/")[0]), name, server.stdout
        finally:
            server.terminate()
            server.communicate(timeout=60)


def first_text_seconds(client: HTTPConnection, body: bytes) -> float:
    """Return the seconds from a request to the first event of its stream with text in it; the rest is read too."""
    started = time.perf_counter()
    client.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    answer, first = client.getresponse(), float("nan")
    while line := answer.readline():
        if first != first and line.startswith(b"data: {"):
            first = time.perf_counter() - started
    return first


def what_http_adds(model: str, n: int) -> dict[str, float]:
    """Return medians of the time to the first token: the client's, the engine's own, and the difference."""
    ours, theirs = [], []
    with served(model) as (port, name, log):
        client = HTTPConnection("127.0.0.1", port, timeout=60)
        for i in range(n + 3):
            body = {"model": name, "prompt": f"{i} {PROMPT}", "max_tokens": 4, "temperature": 0, "stream": True}
            seconds = first_text_seconds(client, json.dumps(body).encode())
            own = json.loads(log.readline())["ttft_seconds"]
            if i >= 3:  # the first passes make what all others find
                ours.append(seconds)
                theirs.append(own)
        client.close()
    added = [a - b for a, b in zip(ours, theirs, strict=True)]
    return {
        "http_ttft": statistics.median(ours),
        "engine_ttft": statistics.median(theirs),
        "http_adds": statistics.median(added),
    }


def health_seconds(port: int, n: int, keep: bool, pause: float = 0.02) -> list[float]:
    """Return the seconds of each of n questions for /health."""
    seconds, client = [], HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(n):
        started = time.perf_counter()
        client.request("GET", "/health")
        assert client.getresponse().read() and client.sock
        seconds.append(time.perf_counter() - started)
        if not keep:
            client.close()
        time.sleep(pause)
    client.close()
    return seconds


def under_bodies(model: str, n: int, n_clients: int = 12) -> dict[str, float]:
    """Return the median and the longest time for /health beside clients that send large bodies all the time."""
    over = threading.Event()
    with served(model) as (port, name, log):
        body = json.dumps({"model": name, "prompt": "To be, or not " * (LARGE // 14)}).encode()

        def send() -> None:
            client = HTTPConnection("127.0.0.1", port, timeout=120)
            while not over.is_set():
                client.request("POST", "/v1/completions", body)
                client.getresponse().read()
            client.close()

        threading.Thread(target=lambda: [None for _ in log], daemon=True).start()
        senders = [threading.Thread(target=send) for _ in range(n_clients)]
        for sender in senders:
            sender.start()
        seconds = health_seconds(port, n, keep=True)
        over.set()
        for sender in senders:
            sender.join()
    return {"health_under_bodies": statistics.median(seconds), "health_under_bodies_longest": max(seconds)}


def under_silence(model: str, n: int, n_silent: int = 300) -> dict[str, float]:
    """Return the median and the longest time for /health beside sockets that say nothing, more than the server has."""
    most_files = None if sys.platform == "win32" else 256
    with served(model, most_files) as (port, _, _), ExitStack() as stack:
        for _ in range(n_silent):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        seconds = health_seconds(port, n, keep=False)
    return {"health_under_silence": statistics.median(seconds), "health_under_silence_longest": max(seconds)}
