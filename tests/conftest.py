"""What every test runs under: one thread, a fixed seed, and the implementation that impl.py chooses.

The annotated shapes of nanolm are not checked here. A checker refuses a misshapen argument before nanolm's own error,
which these tests are about, and refuses their fakes for not being the real classes; test_annotations.py checks the
shapes in a run of its own.
"""

import os
import tempfile

# Before torch is imported: many tiny operations on two threads wait for each other more than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import configuration, settings

pytest_plugins = ["impl"]

# The same examples in every run, and no folder of hypothesis's beside a student's notebook.
configuration.set_hypothesis_home_dir(os.path.join(tempfile.gettempdir(), "nanolm-hypothesis"))
settings.register_profile("course", derandomize=True, database=None, deadline=None)
settings.load_profile("course")


@pytest.fixture(autouse=True)
def _same_seed() -> None:
    """Every test starts from the same random state, in whatever order they run."""
    import torch

    torch.manual_seed(0)


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the tables that tests have recorded, whether they passed or not."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, text in getattr(report, "user_properties", ()):
                if name == "table" and getattr(report, "when", None) == "call":
                    terminalreporter.section(report.nodeid.rpartition("::")[2].replace("_", " "), "-")
                    terminalreporter.write_line(text)
