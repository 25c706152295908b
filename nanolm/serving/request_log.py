"""A line of JSON for each request: who did what when, and never what was said."""

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from starlette.requests import ClientDisconnect

from ..openai_api.refusal import Refusal
from ..openai_api.response import Usage
from .answers import Answers

_log = logging.getLogger("nanolm.requests")


class RequestRecord:
    """What is noted of one request while it is served.

    Args:
        path, client: the address that was asked, and who asked.

    Attributes:
        answers: None where it did not come so far.
    """

    answers: Answers | None = None

    def __init__(self, path: str, client: str | None) -> None:
        self._began = time.perf_counter()
        self.fields: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "client": client,
            "path": path,
        }

    def note(self, **fields: Any) -> None:
        """Add what is known by now."""
        self.fields |= fields

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Write the line of a request that fails within."""
        try:
            yield
        except Refusal as refusal:
            self.write(refusal.status, refusal.code or refusal.param)
            raise
        except ClientDisconnect:
            self.write(499, "client_gone")
            raise
        except Exception:
            self.write(500, "internal_error")
            raise

    def write(self, status: int, error: str | None = None) -> None:
        """Write the line.

        Args:
            status: of the answer, or what it would have been where a stream had begun; 499: the client has gone.
            error: its code.
        """
        if not _log.isEnabledFor(logging.INFO):
            return
        answers = self.answers
        usage = answers.usage if answers else Usage()
        done = [answer for answer in answers.answers if answer.metrics] if answers else []
        times = done[0].metrics if done else None
        self.note(
            status=status,
            error=error,
            prompt_tokens=usage.n_prompt,
            cached_tokens=usage.n_cached,
            completion_tokens=usage.n_new,
            finish_reasons=[answer.reason for answer in answers.answers] if answers else [],
            queue_seconds=_rounded(times and times.queue_seconds),
            ttft_seconds=_rounded(times and times.ttft_seconds),
            tpot_seconds=_rounded(times and times.tpot_seconds),
            seconds=_rounded(time.perf_counter() - self._began),
        )
        _log.info(json.dumps(self.fields))


class _Handler(logging.StreamHandler):
    """A full disk or a closed pipe loses lines and no requests."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def log_requests(stream: TextIO | None = None) -> None:
    """Write a line for each request from now on, to standard output unless said otherwise."""
    for handler in list(_log.handlers):
        _log.removeHandler(handler)
    handler = _Handler(stream or sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = False


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None or seconds != seconds else round(seconds, 6)
