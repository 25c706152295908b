"""A training run on disk: written so that an interruption at any moment leaves a state to resume from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from nanolm._files import write_whole


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write(temporary_path)`, then put the result in place of `path` in one step.

    If `write` fails or the process dies in it, `path` still holds what it held before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, write)


def save_json(path: Path, value: Any) -> None:
    """Write the value as indented JSON, atomically."""
    text = json.dumps(value, indent=1) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write the state of a run (tensors, numbers, lists, dictionaries), atomically."""
    write_atomically(path, lambda temporary: torch.save(state, temporary))


def load_state(path: Path, recipe: dict[str, Any]) -> dict[str, Any] | None:
    """The saved state of this very run, or None when there is none.

    Raises:
        ValueError: the file belongs to a run with another recipe, or is not a readable state.
    """
    if not path.exists():
        return None
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        raise ValueError(
            f"{path}: not a readable training state ({type(error).__name__}); delete it to start anew"
        ) from error
    if state["recipe"] != recipe:
        differing = sorted(k for k in recipe if state["recipe"].get(k) != recipe[k])
        raise ValueError(
            f"{path}: belongs to a run with another {', '.join(differing)}; delete it or choose another --run"
        )
    return state
