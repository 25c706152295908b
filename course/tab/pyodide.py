"""Python for the browser, fetched once: Pyodide from npm; hypothesis, part of which is compiled, from PyPI."""

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

VERSION = "314.0.7"  # its Python is 3.14, its platform pyemscripten_2026_0_wasm32
FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip")
_PLATFORM = ("--python-version", "3.14", "--platform", "pyemscripten_2026_0_wasm32", "--abi", "cp314")
_SECONDS = 600


def fetched(kept: Path) -> Path | None:
    """Return the folder with Pyodide's files and a wheel of hypothesis, fetched if need be; None where neither is had.

    Args:
        kept: the folder that holds what was fetched, one folder a version in it.
    """
    hypothesis = metadata.version("hypothesis")
    folder = kept / f"pyodide-{VERSION}-hypothesis-{hypothesis}"
    if is_whole(folder):
        return folder
    making = kept / "being-fetched"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    if not (_npm(making) and _pip(making, f"hypothesis=={hypothesis}") and is_whole(making)):
        return None
    shutil.rmtree(folder, ignore_errors=True)
    making.rename(folder)
    return folder


def is_whole(folder: Path) -> bool:
    """Return whether a folder has all that was to be fetched."""
    return all((folder / name).is_file() for name in FILES) and any(folder.glob("*.whl"))


def _npm(folder: Path) -> bool:
    npm = shutil.which("npm")  # npm.cmd on Windows
    if npm is None or not _runs([npm, "pack", "--silent", f"pyodide@{VERSION}"], folder):
        return False
    shutil.unpack_archive(folder / f"pyodide-{VERSION}.tgz", folder)
    for name in FILES:
        (folder / "package" / name).rename(folder / name)
    shutil.rmtree(folder / "package")
    return True


def _pip(folder: Path, wheel: str) -> bool:
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    return _runs([*download, "--no-deps", "--only-binary=:all:", *_PLATFORM, "--dest", ".", wheel], folder)


def _runs(command: list[str], folder: Path) -> bool:
    try:
        return not subprocess.run(command, cwd=folder, capture_output=True, timeout=_SECONDS).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False
