"""Notebooks as files, and several files changed together: all of them or none."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nanolm._files import write_whole

from ..errors import CourseError
from ..paths import read


def text_of(path: Path) -> str:
    """Return the text of a student's file; raise CourseError where it is not UTF-8, or cannot be read."""
    try:
        return read(path)
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CourseError(f"{path} is not in UTF-8 ({error.reason} at byte {error.start}): save it as that") from None


def load(path: Path) -> dict[str, Any]:
    """Return a notebook as its JSON, each cell's source as one string.

    Raises:
        CourseError: no such file, not JSON, or not a notebook; the message is to follow the file's name.
    """
    try:
        return parsed(path.read_bytes())
    except OSError as error:
        raise CourseError(f"cannot be read: {error.strerror}") from None


def parsed(text: str | bytes) -> dict[str, Any]:
    """Return a notebook, its text or its bytes, as JSON; raise CourseError as `load` does."""
    try:
        content = _json(text)
    except (ValueError, RecursionError) as error:
        raise CourseError(f"is not a notebook: it is not JSON ({error})") from None
    if isinstance(content, dict) and "worksheets" in content:
        raise CourseError("is a notebook of nbformat 3 or older: open it in JupyterLab, save it, and hand that in")
    if not (isinstance(content, dict) and isinstance(content.get("cells"), list)):
        raise CourseError("is not a notebook: it has no list of cells")
    content["cells"] = [cell for cell in content["cells"] if isinstance(cell, dict)]
    for cell in content["cells"]:
        source = cell.get("source")
        cell["source"] = _text("".join(map(str, source)) if isinstance(source, list) else str(source or ""))
        if not isinstance(cell.get("metadata"), dict):
            cell["metadata"] = {}
    return content


def _json(text: str | bytes) -> Any:
    """JSON in any Unicode encoding; some editors on Windows save in its own, which no JSON is in."""
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        assert isinstance(text, bytes)  # only those are decoded
        return json.loads(text.decode("cp1252", "replace"))


def _text(source: str) -> str:
    """A cell's text with LF between lines, and without halves of characters, which no file could hold."""
    return source.replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8")


def to_text(notebook: Mapping[str, Any]) -> str:
    """Return a notebook as the text of its file, laid out as Jupyter does."""
    cells = [cell | {"source": cell["source"].splitlines(keepends=True)} for cell in notebook["cells"]]
    return json.dumps({**notebook, "cells": cells}, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


class Changes:
    """Files to write and to remove, all of them or none of them."""

    def __init__(self) -> None:
        self.new: dict[Path, bytes | None] = {}  # None: the file goes

    def write(self, path: Path, text: str) -> None:
        """Plan a file; one that has this text already is left alone."""
        if not (path.is_file() and read(path) == text):
            self.new[path] = text.encode("utf-8")

    def write_bytes(self, path: Path, content: bytes) -> None:
        """Plan a file with these bytes."""
        self.new[path] = content

    def copy(self, source: Path, path: Path) -> None:
        """Plan a file with the bytes that another has now."""
        self.new[path] = source.read_bytes()

    def remove(self, path: Path) -> None:
        """Plan that a file goes."""
        self.new[path] = None

    def apply(self) -> None:
        """Write and remove what was planned.

        Raises:
            CourseError: a file cannot be written. Every other is as it was before.
        """
        before: dict[Path, bytes | None] = {}
        for path, content in self.new.items():
            try:
                before[path] = path.read_bytes() if path.exists() else None
                put(path, content)
            except OSError as error:
                for done in reversed(before):
                    with contextlib.suppress(OSError):  # the one that failed still has its old content
                        put(done, before[done])
                raise CourseError(f"{path} cannot be written: {error.strerror}; every file is as it was") from None


def put(path: Path, content: bytes | None) -> None:
    """Write a file, all of it or nothing, or remove it where there is no content; raise OSError if that fails."""
    if content is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda part: part.write_bytes(content))
