"""A leaderboard: every hand-in served again on this machine, under one load and its goals. Claims count for nothing."""

import math
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..capstone.check import Check
from ..capstone.goals import Given
from ..capstone.run import Tell, checked, work
from ..capstone.settings import Choices
from ..capstone.verdict import MET, NO_GOAL, WORDS, Verdict, spread
from ..errors import CourseError
from ..grading.implementation import REFERENCE
from .hand_in import HandIn


@dataclass(frozen=True)
class Entry:
    """One hand-in, served again.

    Attributes:
        name: its file's.
        choices: as handed in; None if it could not be read.
        verdict: what came of it; None if it broke.
        remark: why it has no place, or what else is to be known.
    """

    name: str
    choices: Choices | None
    verdict: Verdict | None
    remark: str = ""

    @property
    def scores(self) -> list[float]:
        """Dollars for a million tokens in time, by round; none where nothing can be scored."""
        if self.verdict is None or not self.verdict.has_verdict or not self.verdict.check.is_right:
            return []
        return self.verdict.scores if max(self.verdict.in_time) else []


def leaderboard(
    files: Sequence[Path], at: Given, rounds: int = 3, seconds: float = 300, tell: Tell = lambda _: None
) -> list[Entry]:
    """Check and serve every hand-in, in rounds in which each has one turn; return them, the best first.

    Their code is run, as it is when it is graded.

    Args:
        files: the hand-ins.
        at: machine, load and goals, the same for all.
        rounds, seconds, tell: as for `capstone`.
    """
    with tempfile.TemporaryDirectory() as folder:
        readied = [_ready(path, at, Path(folder) / f"{i}", seconds, tell) for i, path in enumerate(files)]
        done: dict[str, list[dict[str, Any]]] = {}
        reference: list[dict[str, Any]] = []
        for number in range(rounds):
            tell(f"round {number + 1} of {rounds}: the reference")
            reference.append(work("serve", REFERENCE, at.load, Choices(), seconds))
            for each in readied:
                if not each.error:
                    tell(f"round {number + 1} of {rounds}: {each.name}")
                    each.serve(at, seconds, done.setdefault(each.impl, []))
    entries = [each.entry(at, done.get(each.impl, []), reference) for each in readied]
    return sorted(entries, key=lambda entry: (statistics.median(entry.scores or [math.inf]), entry.name))


class _Readied:
    """A hand-in unpacked and checked."""

    def __init__(self, name: str) -> None:
        self.name, self.impl, self.error, self.remark = name, "", "", ""
        self.choices: Choices | None = None
        self.check: Check | None = None

    def serve(self, at: Given, seconds: float, done: list[dict[str, Any]]) -> None:
        assert self.choices is not None
        try:
            done.append(work("serve", self.impl, at.load, self.choices, seconds))
        except CourseError as error:
            self.error = str(error)

    def entry(self, at: Given, done: list[dict[str, Any]], reference: list[dict[str, Any]]) -> Entry:
        if self.error or self.check is None:
            return Entry(self.name, self.choices, None, self.error)
        return Entry(self.name, self.choices, Verdict(at, self.check, done, reference), self.remark)


def _ready(path: Path, at: Given, folder: Path, seconds: float, tell: Tell) -> _Readied:
    found = _Readied(path.stem)
    try:
        handed_in = HandIn.read(path)
        found.choices, found.impl = handed_in.choices, str(handed_in.unpack(folder))
        tell(f"{found.name}: the texts")
        reference = checked(REFERENCE, at, handed_in.choices, seconds, together=False)
        found.check = Check.of(checked(found.impl, at, handed_in.choices, seconds), reference)
    except CourseError as error:
        found.error = str(error).replace(found.impl, path.stem) if found.impl else str(error)
        return found
    n_other = handed_in.n_other_texts(at.load, found.check)
    if n_other:
        found.remark = f"{n_other} texts are not those handed in"
    if not found.check.own_parts:
        found.error = "no part of its own did any work"
    elif not found.check.is_right:
        found.error = found.check.in_words()
    return found


def rank(entry: Entry, entries: Sequence[Entry]) -> int:
    """Return 1 more than the entries that were cheaper in every round than this one in any: a tie shares a place."""
    return 1 + sum(max(other.scores) < min(entry.scores) for other in entries if other.scores)


def figures(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the board as plain values: rank is None for who has no place, and remark says why."""
    return [
        {
            "name": entry.name,
            "rank": rank(entry, entries) if entry.scores else None,
            "dollars_per_million_tokens": list(entry.scores),
            "choices": None if entry.choices is None else entry.choices.in_words(),
            "remark": entry.remark,
        }
        for entry in entries
    ]


def show(entries: Sequence[Entry], console: Console) -> None:
    """Print the board; who has no place, and why, below it."""
    table = Table(title="Dollars for a million tokens in time, smallest to largest", title_justify="left")
    for heading in ("", "", "score", "in time", "goals", "own parts", "choices", ""):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        if entry.scores and entry.verdict is not None and entry.choices is not None:
            verdict = entry.verdict
            parts = f"{len(verdict.check.own_parts)} of {len(verdict.check.working_parts)}"
            n = len(verdict.yours[0]["requests"])
            score, in_time = f"{spread(entry.scores, '{:.3f}')} $", f"{spread(verdict.in_time, '{:.0f}')} of {n}"
            row = [f"{rank(entry, entries)}", entry.name, score, in_time, _goals(verdict), parts]
            table.add_row(*row, entry.choices.in_words(), entry.remark)
    console.print(table)
    for entry in entries:
        if not entry.scores:
            console.print(f"{entry.name}: no place: {entry.remark or 'no request came in time'}", markup=False)


def _goals(verdict: Verdict) -> str:
    other = [f"{WORDS[name]}: {found}" for name, found in verdict.goals.items() if found not in (MET, NO_GOAL)]
    return "; ".join(other) or "all met"
