"""The results of an audit, kept in a file as they come, so that one broken off goes on where it was."""

import hashlib
import json
from pathlib import Path

from ..paths import ROOT, read
from ..registry import Exercise
from .fingerprint import fingerprint
from .run import Result

FILE = ROOT / "grading" / "audit.jsonl"  # where private things of an instructor lie; never committed


def key(exercise: Exercise, kind: str, text: str, seed: int, weak: tuple[str, ...]) -> str:
    """Return the name of one result in the file; another text, seed, test or grader gives another."""
    return _hash(repr((fingerprint(exercise), exercise.number, kind, text, seed, sorted(weak))))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def load(path: Path | None = None) -> dict[str, Result]:
    """Return the results that are kept, in FILE, by key; a line that an interruption has cut is left out."""
    path, found = path or FILE, {}
    for line in read(path).splitlines() if path.exists() else []:
        try:
            entry = json.loads(line)
            name = entry.pop("key")
            found[name] = Result(**entry)
        except (ValueError, TypeError, KeyError):
            continue
    return found


def keep(name: str, result: Result, path: Path | None = None) -> None:
    """Add one result to the file, FILE."""
    path = path or FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"key": name, **result.to_json()}, ensure_ascii=False) + "\n"
    with path.open("ab+") as file:
        if file.seek(0, 2):
            file.seek(-1, 2)
            line = line if file.read(1) == b"\n" else f"\n{line}"  # behind one that a killed process has cut
        file.write(line.encode())
