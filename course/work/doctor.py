"""course doctor: is this machine ready for the course? One line a question, with what to do where it is not."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..paths import IS_INSTALLED, ROOT, read

PYTHONS = ((3, 11), (3, 13))
_MEMORY, _DISK = 2.0, 1.0  # GB that a lesson, and what it writes, may take
_PACKAGE = "nanolm-course"
_FROM_FOLDER = 'python -m pip install -e ".[course,serve,test,train]" -c constraints.txt (or make lab)'
_FROM_WHEEL = 'python -m pip install "nanolm-course[course,serve]" -c constraints.txt'  # in the folder laid out


@dataclass(frozen=True)
class Finding:
    """The answer to one question: whether it is well, what it is about, what was found, and what to do."""

    is_fine: bool
    about: str
    found: str
    advice: str = ""

    def __str__(self) -> str:
        head = f"{'ok' if self.is_fine else 'look':4}  {self.about:11}  {self.found}"
        return head if self.is_fine or not self.advice else f"{head}: {self.advice}"


def examine(root: Path = ROOT) -> list[Finding]:
    """Return what there is to say of this Python and this machine, one finding a question; nothing is changed."""
    return [python(), environment(root), packages(root), kernel(), memory(), disk(root), threads(), torch_build(root)]


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Return whether the course runs on this Python."""
    low, high = (".".join(map(str, each)) for each in PYTHONS)
    number = ".".join(map(str, version))
    is_fine = PYTHONS[0] <= tuple(version[:2]) <= PYTHONS[1]
    return Finding(is_fine, "Python", number, f"the course runs on {low} to {high}; make the environment with one")


def environment(root: Path = ROOT) -> Finding:
    """Return whether the course's own environment, or another one, is in use."""
    own, here = root / ".venv", Path(sys.prefix)
    if own.is_dir() and here.resolve() == own.resolve():
        return Finding(True, "environment", f"{own.name} of the course")
    if own.is_dir():
        folder = "Scripts" if os.name == "nt" else "bin"
        command = f"{own / folder / 'activate'}" if os.name == "nt" else f"source {own / folder / 'activate'}"
        return Finding(False, "environment", f"{here}, and the course has its own in {own}", f"activate it: {command}")
    if sys.prefix != sys.base_prefix or os.environ.get("CONDA_PREFIX"):
        return Finding(True, "environment", str(here))
    how = "python -m venv FOLDER, and install the wheel there" if IS_INSTALLED else "make lab, or README"
    return Finding(False, "environment", f"none, the Python of the system in {here}", f"make one: {how}")


def packages(root: Path = ROOT) -> Finding:
    """Return whether what the course needs is installed, in the versions that it was tested with."""
    missing = sorted(set(_needed()) - {name for name in _needed() if _installed(name)})
    if missing:
        return Finding(False, "packages", f"not installed: {', '.join(missing)}", _how_to_install(root))
    if not (root / "constraints.txt").is_file():
        return Finding(True, "packages", "all there; no constraints.txt here to compare versions with")
    pins = dict(re.findall(r"(?m)^([A-Za-z0-9._-]+)==(\S+)$", read(root / "constraints.txt")))
    there = {name: version for name in pins if (version := _installed(name))}
    # "2.13.0+cpu" is 2.13.0, built for a processor.
    other = [f"{name} {v} instead of {pins[name]}" for name, v in there.items() if v.partition("+")[0] != pins[name]]
    if other:
        shown = ", ".join(other[:4]) + (f" and {len(other) - 4} more" if len(other) > 4 else "")
        return Finding(False, "packages", f"not as tested: {shown}", _how_to_install(root))
    return Finding(True, "packages", f"all there, {len(there)} as pinned in constraints.txt")


def _how_to_install(root: Path, installed: bool = IS_INSTALLED) -> str:
    """The command for all packages in the pinned versions; where no pins lie, in any."""
    if not installed:
        return _FROM_FOLDER
    return _FROM_WHEEL if (root / "constraints.txt").is_file() else _FROM_WHEEL.removesuffix(" -c constraints.txt")


def _needed() -> Iterator[str]:
    """The packages that a lesson and its checks need, without those of instructors and developers."""
    try:
        lines = metadata.requires(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        lines = []
    for line in lines:
        requirement, _, marker = line.partition(";")
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        if name and (not marker or re.search(r"extra == ['\"]course['\"]", marker)):
            yield name[0]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def kernel() -> Finding:
    """Return whether notebooks run on this Python."""
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ImportError:
        return Finding(False, "Jupyter", "not installed", _how_to_install(ROOT))
    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except (NoSuchKernel, OSError, ValueError, json.JSONDecodeError):
        return Finding(False, "Jupyter", "there is no kernel python3", "python -m ipykernel install --sys-prefix")
    program = Path(spec.argv[0])
    # A bare name is replaced by the Python that Jupyter itself runs on.
    is_ours = program.parent == Path() or program.parent.resolve() == Path(sys.executable).parent.resolve()
    where = sys.executable if is_ours else program
    return Finding(
        is_ours,
        "Jupyter",
        f"notebooks run on {where}",
        f"this is {sys.executable}; python -m ipykernel install --sys-prefix",
    )


def memory(free: float | None = None) -> Finding:
    """Return whether there is memory for a lesson; `free` in GB is measured if left out."""
    try:
        import psutil
    except ImportError:
        return Finding(True, "memory", "not measured: psutil, which comes with Jupyter, is not installed")
    there: float = psutil.virtual_memory().available / 1e9 if free is None else free
    return Finding(
        there >= _MEMORY, "memory", f"{there:.1f} GB free", f"a lesson takes up to {_MEMORY:g}; close programs"
    )


def disk(root: Path = ROOT, free: float | None = None) -> Finding:
    """Return whether there is room on the course's disk; `free` in GB is measured if left out."""
    free = shutil.disk_usage(root).free / 1e9 if free is None else free
    return Finding(free >= _DISK, "disk", f"{free:.1f} GB free in {root}", f"make room for {_DISK:g} GB")


def threads() -> Finding:
    """Return whether the settings for threads suit this machine."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    number, policy = os.environ.get("OMP_NUM_THREADS"), os.environ.get("OMP_WAIT_POLICY")
    found = f"{cores} cores; OMP_NUM_THREADS is {number or 'not set'}, OMP_WAIT_POLICY {policy or 'not set'}"
    if policy and policy.lower() == "passive":
        return Finding(False, "threads", found, "passive waiting makes a quiet machine several times slower: unset it")
    if number and (not number.isdecimal() or not 1 <= int(number) <= cores):
        return Finding(False, "threads", found, f"a number from 1 to {cores}, or unset it")
    return Finding(True, "threads", found)


def torch_build(root: Path = ROOT) -> Finding:
    """Return which torch is installed and what it can compute on."""
    try:
        import torch
    except Exception as error:
        return Finding(False, "torch", f"cannot be imported ({type(error).__name__}: {error})", _how_to_install(root))
    build = "CUDA" if torch.version.cuda else "ROCm" if torch.version.hip else "CPU"
    if torch.cuda.is_available():
        computes = f"a GPU: {torch.cuda.get_device_name()}"
    elif torch.backends.mps.is_available():
        computes = "the CPU or Apple's GPU (MPS)"
    else:
        computes = "the CPU"
    return Finding(True, "torch", f"{torch.__version__}, built for {build}, computes on {computes}")
