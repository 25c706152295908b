"""A full disk and a closed pipe: every command ends with one line or none, exit code 1 and no traceback."""

import errno
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from course.paths import ROOT, read
from nanolm.cli.options import one_line
from nanolm.cli.output import App

FULL = Path("/dev/full")
NAMES = ["nanolm", "course"]
# What is written through typer, through rich, through print, and what Python still holds when it exits.
COMMANDS = [
    "nanolm --help",
    "nanolm --version",
    "nanolm info target",
    "nanolm generate 1+1 --max-new-tokens 20",
    "nanolm size --json",
    "course --help",
    "course --version",
    "course status 1",
]


def run(command, stdout):
    name, *arguments = command.split()
    program = f"from {name}.cli import app; app()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, encoding="utf-8"
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_command_line_begins_with_what_tells_of_lost_output(name):
    where, app = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]["scripts"][name].split(":")
    assert isinstance(getattr(import_module(where), app), App)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_one_line(command):
    with FULL.open("wb") as full:
        ended = run(command, full)
    line = f"{command.split()[0]}: the output cannot be written: {os.strerror(errno.ENOSPC)}\n"
    assert (ended.returncode, ended.stderr) == (1, line)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_pipe_is_no_word(command):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        ended = run(command, write_end)
    finally:
        os.close(write_end)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_an_error_of_the_commands_own_keeps_its_traceback():
    app = App(name="thing")

    @app.command()
    def fails() -> None:
        raise FileNotFoundError(errno.ENOENT, "no such file", "lesson.py")

    with pytest.raises(FileNotFoundError, match=r"lesson\.py"):
        app([])


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), BrokenPipeError(errno.EPIPE, "closed")])
def test_lost_output_is_not_told_as_a_bad_request(error):
    with pytest.raises(OSError, match=error.strerror), one_line(2):
        raise error


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_a_server_serves_although_nothing_it_says_is_taken():
    from nanolm.cli.serve import _say_where

    said = f"import sys; from nanolm.cli.serve import {_say_where.__name__} as say; say('m', '0.0.0.0', 1, False)"
    with FULL.open("wb") as full:
        assert subprocess.run([sys.executable, "-c", said], stderr=full, check=False).returncode == 0
