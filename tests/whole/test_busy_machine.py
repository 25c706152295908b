"""No test has a limit that a busy machine meets: hypothesis's own limits are set once, in conftest.py and impl.py."""

import re

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
