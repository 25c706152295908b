"""Runs the tests of the kernels under Triton's interpreter, in a process of their own (conftest.py says why)."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(
    find_spec("triton") is None,
    reason="NO KERNEL IS TESTED: no triton (Linux only: pip install -e '.[kernels]' -c constraints.txt)",
)
def test_every_kernel_under_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE)]
    environment = {name: value for name, value in os.environ.items() if name not in ("NANOLM_IMPL", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        command,
        cwd=HERE.parents[1],
        env=environment | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 4, "a file for each kernel"
