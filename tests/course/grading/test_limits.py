"""Limits of time and memory: met in words, in whichever way the system has, and gone afterwards."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from course.grading import limits as limits_module
from course.grading.limits import MemoryUp, TimeUp, limits
from course.paths import ROOT, write

HAS_ALARM = hasattr(signal, "setitimer")


def endless():
    while True:
        pass


@pytest.mark.parametrize(
    "by", [pytest.param("alarm", marks=pytest.mark.skipif(not HAS_ALARM, reason="no alarm")), "thread"]
)
def test_a_loop_without_an_end_is_broken_off(by, monkeypatch):
    if by == "thread":  # as on Windows
        monkeypatch.delattr(signal, "setitimer", raising=False)
    with pytest.raises(TimeUp), limits(seconds=0.3):
        endless()


@pytest.mark.parametrize(
    "by", [pytest.param("alarm", marks=pytest.mark.skipif(not HAS_ALARM, reason="no alarm")), "thread"]
)
def test_an_answer_that_waits_for_ever_is_broken_off_later(by, monkeypatch):
    if by == "thread":
        monkeypatch.delattr(signal, "setitimer", raising=False)
    started = time.monotonic()
    with pytest.raises(TimeUp), limits(seconds=0.2):
        while True:
            time.sleep(0.01)
    assert time.monotonic() - started >= 1.2  # 6 · 0.2


def test_seconds_are_those_that_the_answer_computes_so_a_busy_machine_makes_nobody_late(monkeypatch):
    clock = limits_module.Clock(1.0)
    time.sleep(1.1)  # as a process waits that gets no processor
    assert clock.left() > 0.5


def test_a_limit_inside_another_ends_what_is_first_up():
    with limits(seconds=60), pytest.raises(TimeUp), limits(seconds=0.2):
        endless()
    assert TimeUp.seconds == 0.2
    with pytest.raises(TimeUp), limits(seconds=0.2), limits(seconds=60):
        endless()
    assert TimeUp.seconds == 0.2


def test_an_answer_that_catches_every_exception_is_broken_off_too():
    def stubborn():
        while True:
            try:
                endless()
            except Exception:
                continue

    with pytest.raises(TimeUp), limits(seconds=0.3):
        stubborn()


def test_memory_that_grows_for_ever_is_told(monkeypatch):
    used = iter(range(0, 10**12, 10**8))
    monkeypatch.setattr(limits_module, "_resident_bytes", lambda: next(used))
    with pytest.raises(MemoryUp), limits(seconds=60, gigabytes=0.5):
        endless()


def test_what_ends_in_time_meets_no_limit_and_leaves_no_alarm():
    with limits(seconds=60):
        value = 1
    assert value == 1
    assert not HAS_ALARM or signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert not [thread for thread in threading.enumerate() if thread.name == "limits of a test"]


@pytest.mark.skipif(not HAS_ALARM, reason="no alarm signal here")
def test_an_alarm_that_was_set_before_still_rings():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *arguments: rung.append(True))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with limits(seconds=60):
            pass
        end = time.monotonic() + 10
        while not rung and time.monotonic() < end:
            time.sleep(0.01)
        assert rung
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_in_the_editor_an_endless_answer_costs_its_own_exercise_seconds_and_no_other(tmp_path):
    from answers import notebook_text

    text = notebook_text("speculative.acceptance")
    _, _, tail = text.partition("def residual_distribution(")
    signature, _, _ = tail.partition('"""')
    text += f"\n\ndef residual_distribution({signature}while True:\n        pass\n"
    write(tmp_path / "speculative" / "acceptance.py", text.replace("from course import NotYetWritten", ""))
    import os

    environment = {**os.environ, "NANOLM_IMPL": str(tmp_path), "PYTEST_ADDOPTS": "", "NANOLM_TEST_SECONDS": "1"}
    environment.pop("PYTEST_CURRENT_TEST", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/speculative/test_acceptance.py"]
    command += ["--exercise", "4.1", "--exercise", "4.2"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")
    said = done.stdout + done.stderr
    assert done.returncode == 1, said[-2000:]
    assert said.count("still running after 1 seconds: look for a loop that does not end") >= 1
    assert "not run: an earlier test of this exercise met its limit" in said
    assert " passed" in said, "the tests of 4.2 run all the same"
    assert "Traceback" not in said and "target_probs - draft_probs" not in said
