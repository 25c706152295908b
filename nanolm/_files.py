"""One way to write a file: whoever reads it meanwhile sees the old one or the new one, and where some lie."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` write another file beside `path`, then put that in its place in one step.

    If `write` fails, or the process dies in it, `path` still holds what it held before. What is no file, a device say,
    is written to as it is: nothing may take its place. A link is replaced, not followed.

    Raises:
        OSError: the file cannot be written.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_symlink():
            write(path)
        else:
            _write_beside(path, write)
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk does not say which file
        raise


def _write_beside(path: Path, write: Callable[[Path], Any]) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        write(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, its lines ending in LF on every system, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))


def user_cache_folder() -> Path:
    """Return the folder for what this user's programs can make anew, as each system has it."""
    if os.name == "nt":
        home = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        home = Path.home() / "Library" / "Caches"
    else:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "nanolm"
