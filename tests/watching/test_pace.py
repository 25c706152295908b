"""Tests `watching/pace.py`: a gate behind every pass."""

import threading

import pytest

from nanolm.watching import Pace

PATIENCE_SECONDS = 20


class Passes:
    """A thread that waits behind each of its passes."""

    def __init__(self, pace):
        self.pace, self.behind, self.thread = (
            pace,
            threading.Semaphore(0),
            threading.Thread(target=self._run, daemon=True),
        )
        self.is_over = False
        self.thread.start()

    def _run(self):
        while not self.is_over:
            self.pace.wait()
            self.behind.release()

    def end(self):
        self.is_over = True
        self.pace.run()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


def test_a_stopped_pace_lets_one_pass_through_for_each_step():
    pace = Pace()
    pace.stop()
    passes = Passes(pace)
    for _ in range(3):
        pace.step()
        assert passes.behind.acquire(timeout=PATIENCE_SECONDS)
        assert not passes.behind.acquire(blocking=False)
    passes.end()


def test_running_again_lets_a_stopped_pass_go():
    pace = Pace()
    pace.stop()
    passes = Passes(pace)
    pace.run()
    assert passes.behind.acquire(timeout=PATIENCE_SECONDS)
    passes.end()


def test_a_stopped_engine_that_nobody_steps_goes_on():
    pace = Pace(patience=0.01)
    pace.stop()
    pace.wait()
    assert not pace.is_slow


def test_slow_motion_waits_behind_a_pass():
    pace = Pace()
    pace.run(0.001)
    assert pace.is_slow
    pace.wait()


@pytest.mark.parametrize("seconds", [-1, 6, float("nan")])
def test_a_pause_that_is_none_is_refused(seconds):
    with pytest.raises(ValueError, match="seconds is"):
        Pace().run(seconds)
