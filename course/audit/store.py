"""The results of an audit, kept in a file as they come, so that one broken off goes on where it was."""

import hashlib
from contextlib import suppress
from pathlib import Path

from ..paths import ROOT
from ..registry import Exercise
from ..text.json_lines import append, entries
from .fingerprint import fingerprint
from .run import Result

FILE = ROOT / "grading" / "audit.jsonl"  # where private things of an instructor lie; never committed


def key(exercise: Exercise, kind: str, text: str, seed: int, weak: tuple[str, ...]) -> str:
    """Return the name of one result in the file; another text, seed, test or grader gives another."""
    return _hash(repr((fingerprint(exercise), exercise.number, kind, text, seed, sorted(weak))))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def load(path: Path | None = None) -> dict[str, Result]:
    """Return the results that are kept, in FILE, by key."""
    found = {}
    for entry in entries(path or FILE):
        with suppress(TypeError, KeyError):  # of another version
            name = entry.pop("key")
            found[name] = Result(**entry)
    return found


def keep(name: str, result: Result, path: Path | None = None) -> None:
    """Add one result to the file, FILE."""
    append(path or FILE, {"key": name, **result.to_json()})
