"""`nanolm serve` as a process."""

import os
import subprocess
import sys
from contextlib import contextmanager

COMMAND = [sys.executable, "-c", "from nanolm.cli.generate import app; app()", "serve"]


@contextmanager
def process(*arguments):
    """The command as a process, and the address that it prints."""
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = [*COMMAND, "--port", "0", *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8", env=environment) as started:
        try:
            line = started.stderr.readline()
            assert " is served at http://127.0.0.1:" in line, line + started.stderr.read()
            yield started, line.split(" is served at ")[1].split()[0]
        finally:
            started.kill()
