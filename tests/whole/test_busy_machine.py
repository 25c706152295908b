"""No run depends on how busy the machine is, or on how it was started.

No test has a limit that a busy machine meets: hypothesis's own limits are set once, in conftest.py and impl.py.
"""

import gc
import re
import signal
import subprocess
import sys

import pytest
import settled
from hypothesis import HealthCheck, settings

from course.grading.runner import TESTS
from course.paths import read

BY_THE_CLOCK = re.compile(r"suppress_health_check=|[(, ]deadline=|time\.(?:perf_counter|time)\(\)")
# Whose subject is a clock, and which compare nothing with it.
MAY = {"conftest.py", "impl.py", "test_busy_machine.py"}


def test_hypothesis_has_no_limit_by_the_clock_for_the_engine_and_for_answers():
    for name in ("course", "answers"):
        profile = settings.get_profile(name)
        assert profile.deadline is None and HealthCheck.too_slow in profile.suppress_health_check


def test_a_law_s_own_settings_keep_those_of_the_run():
    assert settings(max_examples=3).suppress_health_check == settings.default.suppress_health_check


def test_no_test_sets_a_limit_of_its_own_or_compares_with_the_wall_clock():
    files = [path for path in TESTS.rglob("*.py") if path.name not in MAY and not path.is_relative_to(TESTS / "right")]
    found = {path.relative_to(TESTS).as_posix(): BY_THE_CLOCK.findall(read(path)) for path in files}
    assert {name: texts for name, texts in found.items() if texts} == {}


ENDS = "import sys, time\nprint('there', flush=True)\ntime.sleep(60)"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to another process")
def test_a_process_of_a_test_hears_sigint_though_the_run_was_started_in_the_background():
    """`pytest … &` in a script starts with SIGINT ignored, and whatever is started from there ignores it too."""
    inner = f"import pytest, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\npytest.main({asked_for()!r})"
    done = subprocess.run([sys.executable, "-c", inner], cwd=TESTS.parent, capture_output=True, text=True, timeout=600)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def asked_for():
    here = f"{TESTS / 'whole' / 'test_busy_machine.py'}::test_sigint_ends_a_process"
    return ["-q", "-n", "0", "-p", "no:cacheprovider", here]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to another process")
def test_sigint_ends_a_process():
    with subprocess.Popen([sys.executable, "-c", ENDS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as started:
        try:
            assert started.stdout.readline() == b"there\n"
            started.send_signal(signal.SIGINT)
            assert started.wait(timeout=30) != 0
        finally:
            started.kill()


def test_what_a_long_collection_made_is_not_walked_over_again_and_again():
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        settled.settle()
        assert gc.get_freeze_count() > frozen and gc.get_threshold()[2] == settled.OLDEST
        assert gc.isenabled(), "what tests leave in circles still goes"
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize(("n", "is_settled"), [(settled.MANY_TESTS, False), (settled.MANY_TESTS + 1, True)])
def test_a_run_settles_where_it_has_many_tests(monkeypatch, n, is_settled):
    calls = []
    monkeypatch.setattr(settled, "settle", lambda: calls.append(n))
    settled.pytest_collection_finish(type("Session", (), {"items": [None] * n}))
    assert calls == [n] * is_settled
