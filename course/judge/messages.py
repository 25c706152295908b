"""What the judge's processes say to each other: settings at the start, then messages, one JSON object a line."""

import json
import os
import select
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from ..grading.limits import TEST_SECONDS
from .isolation import PLAIN

PATIENCE = 6
LONGEST = 4 << 20  # bytes of one message
_PIECE = 1 << 16


class Closed(EOFError):
    """The other side has ended."""


class Channel:
    """Two ends of two pipes, by their descriptors; what it needs of modules is bound before any answer is loaded."""

    def __init__(self, down: int, up: int) -> None:
        self.down, self.up, self._rest = down, up, b""
        self._read, self._write, self._loads, self._dumps = os.read, os.write, json.loads, json.dumps

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            Closed: nobody reads any more.
        """
        line = self._dumps(message).encode() + b"\n"
        try:
            while line:
                line = line[self._write(self.up, line) :]
        except OSError as error:
            raise Closed(str(error)) from None

    def receive(self, seconds: float | None = None) -> dict[str, Any] | None:
        """Return the next message; None where none has come within `seconds`.

        Raises:
            Closed: the other side has ended.
            ValueError: what came is no message, or too long.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = None if end is None else max(0.0, end - time.monotonic())
            if left is not None and not select.select([self.down], [], [], left)[0]:
                return None
            piece = self._read(self.down, _PIECE)
            if not piece:
                raise Closed("the other side has ended")
            self._rest += piece
            if len(self._rest) > LONGEST:
                raise ValueError(f"a message of more than {LONGEST} bytes")
        line, _, self._rest = self._rest.partition(b"\n")
        message = self._loads(line)
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")
        return message


@dataclass(frozen=True)
class Limits:
    """What an exercise may take.

    Attributes:
        test_seconds: of one test, as in `check`.
        seconds: of all, computed, not waited for; then the process is ended from outside. One that computes nothing
            may take PATIENCE times as long.
        gigabytes: that it and its children may hold together.
    """

    test_seconds: float = TEST_SECONDS
    seconds: float = 75.0
    gigabytes: float = 5.0


@dataclass(frozen=True)
class Settings:
    """What a server is told when it starts; it travels as JSON.

    Attributes:
        exercises: the numbers of those whose tests are read.
        isolation: SPAWN, PLAIN, AS_USER or AS_ROOT.
        uid: whom forks become, AS_ROOT.
        processes: how many a user may have at once.
        limits: of one exercise.
        seed: any but 0, so that tests are read as an answer's.
    """

    exercises: tuple[str, ...]
    isolation: str = PLAIN
    uid: int = 0
    processes: int = 0
    limits: Limits = field(default_factory=Limits)
    seed: int = 1

    @classmethod
    def read(cls, text: str) -> "Settings":
        """Return the settings that a text of JSON holds."""
        found = json.loads(text)
        return cls(**found | {"exercises": tuple(found["exercises"]), "limits": Limits(**found["limits"])})

    def write(self) -> str:
        """Return them as a text for `read`."""
        return json.dumps(asdict(self))
