"""The box around a server: which files it sees, and nothing else of the machine (bubblewrap, on Linux)."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from ..grading.limits import TEST_SECONDS
from ..paths import ROOT
from .isolation import AS_ROOT, AS_USER, PLAIN, SANDBOXES, SPAWN

# What the tests read of the course; solutions/, grading/, work/ and the history are not among it.
_COURSE = ("nanolm", "course", "tests", "pyproject.toml")
_MODEL_ANSWERS = ("planted", "right", "sentences", "lessons", "course")  # of tests/: nobody who is graded reads these
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime")
_CALLS = "--unshare-net --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --die-with-parent --new-session"


@cache
def kind() -> tuple[str, str]:
    """Return how answers can be isolated here, and where there is no sandbox, why."""
    if sys.platform != "linux":
        return without(), f"there is no bubblewrap on {sys.platform}"
    if shutil.which("bwrap") is None:
        return without(), "bubblewrap (the program bwrap) is not installed"
    found = AS_ROOT if os.getuid() == 0 else AS_USER
    line = [*command(found), sys.executable, "-m", "course.judge.isolation", found]
    tried = subprocess.run(line, capture_output=True, text=True, encoding="utf-8")
    if tried.returncode != 0:
        said = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
        return without(), f"bubblewrap cannot make a sandbox here: {said}"
    return found, ""


def without() -> str:
    """Return how processes are made without a sandbox: a fork of one that has loaded torch is safe on Linux only."""
    return PLAIN if sys.platform == "linux" else SPAWN


def command(kind: str, test_seconds: float = TEST_SECONDS) -> list[str]:
    """Return the beginning of a command line that runs a program in the box; nothing where there is none."""
    if kind not in SANDBOXES:
        return []
    line = ["bwrap", *_CALLS.split(), "--clearenv", "--cap-drop", "ALL"]
    for name, value in environment(test_seconds).items():
        line += ["--setenv", name, value]
    if kind == AS_ROOT:
        for right in ("CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_KILL"):  # which forks give up
            line += ["--cap-add", right]
    else:
        line += ["--unshare-user"]
    for path in [*_SYSTEM, *_SYSTEM_FILES, "/sys/devices/system/cpu"]:
        line += ["--ro-bind-try", path, path]
    line += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"]
    pythons = _pythons()
    for parent in sorted({parent for path in [*pythons, ROOT / "tests"] for parent in path.parents} - {Path("/")}):
        line += ["--perms", "0755", "--dir", str(parent)]  # else only for the user that makes the box
    for path in pythons:
        line += ["--ro-bind", str(path), str(path)]
    for name in _COURSE:
        line += ["--ro-bind", str(ROOT / name), str(ROOT / name)]
    for name in _MODEL_ANSWERS:
        line += ["--tmpfs", str(ROOT / "tests" / name)] if (ROOT / "tests" / name).is_dir() else []
    return [*line, "--chdir", str(ROOT), "--"]


def environment(test_seconds: float) -> dict[str, str]:
    """Return the only variables that a server and its forks have."""
    paths = os.pathsep.join(path for path in map(os.path.abspath, filter(None, sys.path)))
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "USER": "student",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": paths,
        "PYTHONDONTWRITEBYTECODE": "1",
        "NANOLM_TEST_SECONDS": f"{test_seconds:g}",
    }


def outside(kind: str, test_seconds: float) -> dict[str, str]:
    """Return the variables that a server is started with; the box lets none of them in but `environment`."""
    needed = (
        ("SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH") if kind not in SANDBOXES else ()
    )
    here = {name: os.environ[name] for name in needed if name in os.environ}
    return environment(test_seconds) | here | {"PATH": os.environ.get("PATH", os.defpath)}


def _pythons() -> list[Path]:
    """The folders of this Python and its packages; none that has the course, and so its solutions, in it."""
    names = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)), *sys.path]
    found: list[Path] = []
    for path in sorted({Path(name).resolve() for name in names if name}):
        inside = any(path.is_relative_to(other) for other in (*found, *map(Path, _SYSTEM)))
        if path.exists() and not inside and not ROOT.is_relative_to(path):
            found.append(path)
    return found
