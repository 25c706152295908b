"""What a run of `course grade` says at its end: what needs a person first."""

from collections import Counter
from collections.abc import Callable

from ..judge.marks import PASSED
from .grade import Report


def show(report: Report, say: Callable[[str], object]) -> None:
    """Say what was graded, what could not be placed, what is odd, and what would change."""
    for unplaced in report.unplaced:
        say(f"NOT PLACED: {unplaced}")
    for failure in report.failures:
        say(f"NOT GRADED, run this again: {failure}")
    for one in report.graded:
        for note in one.submission.notes:
            say(f"{one.submission.student}: {note}")
    states = Counter(mark.state for one in report.graded for mark in one.marks.values())
    listed = ", ".join(
        f"{count} {state}" for state, count in sorted(states.items(), key=lambda each: each[0] != PASSED)
    )
    say(f"{len(report.graded)} submissions, inputs of seed {report.seed}: {listed or 'nothing to grade'}")
    for change in report.changes:
        say(f"CHANGED: {change}")
    if report.changes and not report.written:
        number = len(report.changes)
        say(f"{number} marks that stand were left as they are; the same command with --yes writes the new ones")
