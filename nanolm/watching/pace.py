"""How fast an engine goes while it is looked at: at full speed, slowly, or pass by pass."""

import threading
import time

MOST_SECONDS = 5.0  # between two passes in slow motion
# A stopped engine that nobody steps goes on by itself: requests of others wait behind it.
PATIENCE_SECONDS = 60.0


class Pace:
    """A gate behind every pass. Another thread sets it; the engine's waits.

    Args:
        patience: seconds after which a stopped engine goes on.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self.patience = patience
        self._changed = threading.Condition()
        self._seconds, self._is_stopped, self._n_steps = 0.0, False, 0

    @property
    def is_slow(self) -> bool:
        """Whether each pass is to be seen."""
        return self._is_stopped or self._seconds > 0

    def run(self, seconds: float = 0.0) -> None:
        """Let the passes follow each other after so many seconds; 0: at full speed.

        Raises:
            ValueError: seconds below 0 or above MOST_SECONDS.
        """
        if not 0 <= seconds <= MOST_SECONDS:
            raise ValueError(f"seconds is {seconds}; between two passes there can be 0 to {MOST_SECONDS:g}")
        self._set(seconds, False, 0)

    def stop(self) -> None:
        """Let no pass begin until `step` or `run`."""
        self._set(0.0, True, 0)

    def step(self) -> None:
        """Let one more pass through, and stop behind it."""
        self._set(0.0, True, self._n_steps + 1)

    def _set(self, seconds: float, is_stopped: bool, n_steps: int) -> None:
        with self._changed:
            self._seconds, self._is_stopped, self._n_steps = seconds, is_stopped, n_steps
            self._changed.notify_all()

    def wait(self) -> None:
        """Stand behind a pass for as long as the pace wants."""
        if not self.is_slow:
            return
        with self._changed:
            if not self._is_stopped:
                until = time.monotonic() + self._seconds
                self._changed.wait_for(lambda: time.monotonic() >= until or not self.is_slow, self._seconds)
                return
            if not self._changed.wait_for(lambda: not self._is_stopped or self._n_steps > 0, self.patience):
                self._is_stopped = False
            self._n_steps = max(0, self._n_steps - 1)
