"""What a process that runs an answer gives up, from inside: other processes, the network's rest, room, rights.

Linux only: the calls that Python has no names for go to the C library. Whoever calls `enter` must be a fresh fork; the
fork that it returns in is process 1 of a world of its own, and everything it leaves behind ends with it.
"""

import ctypes
import os
import re
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

SPAWN, PLAIN = "spawn", "plain"  # a new process for each exercise; a fork of a warm one
AS_USER, AS_ROOT = "user", "root"  # a fork in namespaces, nested in a user's own or made by root, who steps down
SANDBOXES = (AS_USER, AS_ROOT)

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
_NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_PDEATHSIG, _CAPBSET_DROP, _SUBREAPER, _NO_NEW_PRIVS, _CAPABILITY_VERSION = 1, 24, 36, 38, 0x20080522
ROOM = 64 << 20  # bytes that a process may write, in all and to one file
FIRST_UID = 1 << 30  # of forks where root grades: numbers that no account has
PROCESSES = 256  # beyond those that the user has already
_FILES, _CPU_SECONDS = 256, 180


class NoIsolation(OSError):
    """The system refused a step; the message says which."""


def enter(kind: str, uid: int) -> None:
    """Go on in a process of its own PID, mount and IPC namespace; the process that called waits and ends as it ends.

    Args:
        kind: AS_USER or AS_ROOT.
        uid: whom to become, AS_ROOT.

    Raises:
        NoIsolation: the system refuses.
    """
    group = os.getgid()
    mine = os.getuid()
    _call("unshare", _NEWNS | _NEWIPC | _NEWPID | (_NEWUSER if kind == AS_USER else 0))
    if kind == AS_USER:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{mine} {mine} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    first = os.fork()
    if first:
        _wait_and_end_alike(first)
    _end_with_parent()
    _mount(None, "/", None, _REC | _PRIVATE)
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    for folder in ("/tmp", "/dev/shm"):
        if Path(folder).is_dir():
            _empty(folder)


def _empty(folder: str) -> None:
    """Put an empty folder in the place of one; what the box shows in it stays, such as a course that lies in /tmp."""
    shown: dict[str, int] = {}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), line.split()[4])
        if place.startswith(f"{folder}/") and not any(place.startswith(f"{other}/") for other in shown):
            shown.setdefault(place, os.open(place, os.O_PATH | os.O_CLOEXEC))  # the way to it is closed in a moment
    _mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV, f"size={ROOM},mode=1777,nr_inodes=4096")
    for place, number in shown.items():
        source = Path(f"/proc/self/fd/{number}")
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).mkdir() if source.is_dir() else Path(place).touch()
        _mount(str(source), place, None, _BIND | _REC)
        os.close(number)


def _end_with_parent() -> None:
    _call("prctl", _PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _wait_and_end_alike(child: int) -> None:
    for descriptor in range(3, 64):  # pipes have to end when the child does, and this process holds them too
        with suppress(OSError):
            os.close(descriptor)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def hide(files: Mapping[str, str]) -> None:
    """Let other texts stand in the place of files, and nothing in the place of folders (their text is empty)."""
    for i, (path, text) in enumerate(files.items()):
        place = Path(path)
        if place.is_dir():
            _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, "size=4096,mode=555")
        elif place.exists():
            shown = Path(f"/tmp/.shown{i}")
            shown.write_text(text, encoding="utf-8")
            _mount(str(shown), path, None, _BIND)
            shown.unlink()


def step_down(kind: str, uid: int) -> None:
    """Give up every right that `enter` and `hide` needed; for good, and for every program that is started."""
    _call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
    if kind == AS_ROOT:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        _end_with_parent()  # which the change of user has undone
        return
    for capability in range(64):
        ctypes.CDLL(None).prctl(_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def set_limits(address_space: int, processes: int) -> None:
    """Limit this process and its children: memory by addresses, processes, files, their size, processor time."""
    import resource

    wanted = {
        resource.RLIMIT_AS: address_space,
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_FSIZE: ROOM,
        resource.RLIMIT_NOFILE: _FILES,
        resource.RLIMIT_CPU: _CPU_SECONDS,
        resource.RLIMIT_CORE: 0,
    }
    for which, most in wanted.items():
        _, hard = resource.getrlimit(which)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))
    with suppress(OSError):  # where the machine's memory ends all the same, this process goes first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends, so that none is lost sight of."""
    _call("prctl", _SUBREAPER, 1, 0, 0, 0)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    _call("mount", *texts, ctypes.c_ulong(flags), options.encode() or None)


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise NoIsolation(number, f"{name}{arguments[:2]}: {os.strerror(number)}")


if __name__ == "__main__":  # a try: ends with 0 where all of it is granted
    enter(sys.argv[1], FIRST_UID)
    step_down(sys.argv[1], FIRST_UID)
