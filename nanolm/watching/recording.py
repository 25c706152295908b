"""A run of an engine in one JSON file, to be shown again without the engine."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._files import write_text
from ..engine.engine import Engine
from .camera import Camera, Frame

FORMAT = "nanolm-run-1"
MOST_FRAMES = 5000
_DIGITS = 6  # microseconds


@dataclass
class Recording:
    """Frames in order.

    Attributes:
        title: what it shows.
        n_dropped: frames that came when MOST_FRAMES were there.
    """

    title: str = "a run of the engine"
    frames: list[Frame] = field(default_factory=list)
    n_dropped: int = 0

    def add(self, frame: Frame) -> None:
        """Keep a frame, unless there are too many."""
        if len(self.frames) < MOST_FRAMES:
            self.frames.append(frame)
        else:
            self.n_dropped += 1

    def text(self) -> str:
        """Return it as JSON, with times from its beginning."""
        start = self.frames[0]["at"] if self.frames else 0.0
        frames = [_from(start, frame) for frame in self.frames]
        whole = {"format": FORMAT, "title": self.title, "n_dropped": self.n_dropped, "frames": frames}
        return json.dumps(whole, separators=(",", ":"), ensure_ascii=False) + "\n"

    def save(self, path: Path) -> None:
        """Write the file; what was there before stays until all is written.

        Raises:
            OSError: it cannot be written.
        """
        write_text(path, self.text())

    @classmethod
    def load(cls, path: Path) -> "Recording":
        """Return what a file holds.

        Raises:
            FileNotFoundError: there is none.
            ValueError: it is no recording.
        """
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is no recording of a run: {error}") from None
        if not isinstance(read, dict) or read.get("format") != FORMAT or not isinstance(read.get("frames"), list):
            raise ValueError(f"{path} is no recording of a run; its format must be {FORMAT!r}")
        return cls(str(read.get("title", "")), read["frames"], int(read.get("n_dropped", 0)))


@contextmanager
def recorded(
    engine: Engine, title: str = "a run of the engine", word: Callable[[int], str] | None = None
) -> Iterator[Recording]:
    """Record what an engine does inside the block, a frame a pass.

    Args:
        word: returns a token's text, `nanolm.watching.words_of(tokenizer)`; None: frames hold no texts.
    """
    recording = Recording(title)
    camera = Camera(engine, recording.add, word, every_pass=True)
    camera.turn_on()
    try:
        yield recording
    finally:
        camera.turn_off()


def _from(start: float, value: Any, name: str = "") -> Any:
    """A frame with its times from the start, and seconds in microseconds' precision."""
    if isinstance(value, dict):
        return {key: _from(start, each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_from(start, each) for each in value]
    if isinstance(value, float):
        return round(value - start if name == "at" else value, _DIGITS)
    return value
