"""Processes that begin where `import torch` has been done, forked on Linux from one that has: for tests that need many.

To import torch, pytest and ipykernel costs three seconds, more than most of these tests do besides. Nothing of ours is
imported before the fork, so a process sees the files, the folder and the environment of its own test. Where forks are
not safe, each process starts from nothing, as one test of each kind does on Linux too.
"""

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
IS_WARM = sys.platform == "linux"
_IMPORTED = ["torch", "pytest", "ipykernel.kernelapp"]


def run(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run `python -m MODULE …` or `python -c CODE …`; return (exit code, everything printed)."""
    if not IS_WARM:
        return cold(arguments, environment, folder)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        code = Warm(arguments, environment, folder, said.fileno()).wait()
        said.seek(0)
        return code, said.read()


def cold(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """As `run`, in a process that starts from nothing."""
    command = [sys.executable, *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, cwd=folder, env=environment, text=True, encoding="utf-8", **pipes)
    return done.returncode, done.stdout


def launch_kernel(command: Sequence[str], env: Mapping[str, str], cwd: str | None = None, **_: Any) -> "Warm":
    """Stand in for jupyter_client's function of this name, which LocalProvisioner calls."""
    arguments = [*command[command.index("-m") :], f"--IPKernelApp.parent_handle={os.getpid()}"]
    return Warm(arguments, env, Path(cwd or os.getcwd()))


class Warm:
    """A forked process with what its users ask of subprocess.Popen."""

    stdin = stdout = stderr = None

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, output: int | None = None
    ) -> None:
        forks = get_context("forkserver")
        forks.set_forkserver_preload(_IMPORTED)
        where = f"/proc/{os.getpid()}/fd/{output}" if output is not None else None
        self._process = forks.Process(target=_become, args=(list(arguments), dict(environment), str(folder), where))
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int:
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        assert self.pid is not None
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()


def _become(arguments: list[str], environment: dict[str, str], folder: str, output: str | None) -> None:
    """Be a fresh `python arguments` as far as its program can see."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if output is not None:
        file = os.open(output, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
    theirs = [path for path in sys.path if not Path(path).is_relative_to(TESTS)]
    ahead = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    kind, what, *others = arguments
    sys.path[:] = [folder if kind == "-m" else "", *ahead, *theirs]
    sys.argv[:] = [kind, *others]
    del sys.modules["warm"]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
