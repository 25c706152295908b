"""What every test runs under: one thread, a fixed seed, and the implementation that impl.py chooses.

The annotated shapes of nanolm are not checked here. A checker refuses a misshapen argument before nanolm's own error,
which these tests are about, and refuses their fakes for not being the real classes; test_annotations.py checks the
shapes in a run of its own.
"""

import os
import signal
import tempfile

# Before torch is imported: many tiny operations on two threads wait for each other more than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator
from contextlib import suppress

import pytest
from chernoff import SPENT
from hypothesis import HealthCheck, configuration, settings
from process_settings import settings_kept

from course.grading.seeds import fresh

pytest_plugins = ["impl", "left_out", "settled", "shuffled"]
_FALSE_ALARM = "chance of a false alarm"

# The same examples in every run of the reference, and no folder of hypothesis's beside a student's notebook.
configuration.set_hypothesis_home_dir(os.path.join(tempfile.gettempdir(), "nanolm-hypothesis"))
# No limit of hypothesis's is by the clock: on a busy machine every example is slow.
_ALLOWED = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
settings.register_profile("course", derandomize=True, database=None, deadline=None, suppress_health_check=_ALLOWED)
settings.load_profile("course")
MOST_FALSE_ALARMS = 1e-4  # a whole run, of right answers


def pytest_configure(config) -> None:
    """Hear SIGINT again where a shell started the run in the background with it ignored: our processes inherit that."""
    with suppress(ValueError):  # only the main thread may say so
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _same_seed(request) -> Iterator[None]:
    """Every test starts from the random state of the run's seed, in whatever order they run, and leaves no setting."""
    with suppress(ModuleNotFoundError):  # in a browser's tab, where there is none
        import torch

        # Where there is a GPU its generators are seeded too; to look for them takes a millisecond.
        seed = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed
        seed(fresh(0))
    before = len(SPENT)
    with settings_kept():
        yield
    if SPENT[before:]:
        request.node.user_properties.append((_FALSE_ALARM, sum(SPENT[before:])))


def report_of_teardown(report) -> bool:
    """Whether a report is a test's last one, which has all that the test has recorded."""
    return getattr(report, "when", None) == "teardown"


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the tables that tests have recorded, passed or not, and how probable a false alarm was."""
    everything = [report for reports in terminalreporter.stats.values() for report in reports]
    properties = [getattr(report, "user_properties", ()) for report in everything if report_of_teardown(report)]
    chance = sum(value for each in properties for name, value in each if name == _FALSE_ALARM)
    if chance:
        allowed = "" if chance <= MOST_FALSE_ALARMS else f", and {MOST_FALSE_ALARMS:g} is allowed"
        terminalreporter.write_line(
            f"A right answer would have failed here with a chance of at most {chance:.1g}{allowed}."
        )
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, text in getattr(report, "user_properties", ()):
                if name == "table" and getattr(report, "when", None) == "call":
                    terminalreporter.section(report.nodeid.rpartition("::")[2].replace("_", " "), "-")
                    terminalreporter.write_line(text)
