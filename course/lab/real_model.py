"""SmolLM2 for a lesson's cell, or one line that says how to get it: a real model is an extra, no condition."""

import functools
from typing import Any

from nanolm.checkpoint import load


@functools.cache
def _loaded() -> tuple[Any, Any] | str:
    try:
        return load("smollm2")
    except (FileNotFoundError, ImportError) as error:
        return str(error)


def real_model() -> tuple[Any, Any] | None:
    """Return (model, tokenizer) of SmolLM2-135M-Instruct in float32, read once a session (0.5 GB, some seconds).

    Where its package is not installed it prints one line with the command, and returns None: the cell then ends.
    """
    found = _loaded()
    if isinstance(found, str):
        print(f"left out: {' '.join(found.split())}")
        return None
    return found
