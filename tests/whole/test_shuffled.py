"""The order of a run is random where that is asked for, and the same for the same seed (helpers/shuffled.py)."""

import os
import subprocess
import sys

import pytest

from course.paths import ROOT

TESTS = "import pytest\n\n@pytest.mark.parametrize('n', range(20))\ndef test_one(n): pass\n"


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """The names of two files' tests in the order of their runs: as collected, with seeds 1 and 2, and with 1 again."""
    folder = tmp_path_factory.mktemp("shuffled")
    for name in ("test_a.py", "test_b.py"):
        (folder / name).write_text(TESTS, encoding="utf-8")
    each = [[], ["--shuffle", "1"], ["--shuffle", "2"], ["--shuffle", "1"]]
    main = ["-p", "shuffled", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder), "-q", "--co"]
    runs = f"for asked in {each}:\n    print('run')\n    pytest.main([*{main}, *asked, {str(folder)!r}])"
    command = [sys.executable, "-c", f"import pytest\n{runs}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests" / "helpers"), "PYTHONUTF8": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return [[line for line in run.splitlines() if "::" in line] for run in done.stdout.split("run\n")[1:]]


def test_all_run_whatever_their_order(orders):
    assert len(orders[0]) == 40 and all(sorted(order) == sorted(orders[0]) for order in orders)


def test_the_order_is_the_seed_s(orders):
    plain, first, second, again = orders
    assert first == again
    assert len({tuple(order) for order in (plain, first, second)}) == 3


def test_a_file_s_tests_stay_together(orders):
    for order in orders:
        files = [name.partition("::")[0] for name in order]
        assert files[:20] == files[:1] * 20 and files[20:] == files[-1:] * 20
