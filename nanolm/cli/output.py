"""What a command does when nobody takes its output: the disk is full, or whoever read it has gone."""

import errno
import os
import sys
from typing import Any

import typer
from rich.console import Console

# The disk or what is allowed of it is full, a file may grow no longer, the device fails, nothing may be written there.
_NOT_WRITTEN = {getattr(errno, name) for name in ["ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS"] if hasattr(errno, name)}


def is_output_lost(error: OSError) -> bool:
    """Return whether an error says that what was written could not be taken, which is no fault of the command."""
    return isinstance(error, BrokenPipeError) or error.errno in _NOT_WRITTEN


class App(typer.Typer):
    """A command that ends with exit code 1 where its output is lost: with one line, or none where a pipe was closed.

    Python writes out what is still held only as it exits, too late to say it well; so it is written out here.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return super().__call__(*args, **kwargs)
            finally:
                if sys.stdout is not None:  # as where it was closed before the command began
                    sys.stdout.flush()
        except OSError as error:
            if not is_output_lost(error):
                raise
            _end(error, str(self.info.name or "error"))


def _end(error: OSError, name: str) -> None:
    if not isinstance(error, BrokenPipeError):
        where = error.filename or "the output"
        line = f"{name}: {where} cannot be written: {error.strerror}"
        Console(stderr=True, soft_wrap=True).print(line, markup=False, highlight=False)
    if sys.stdout is not None:  # what it still holds would be tried again at the exit, and fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
