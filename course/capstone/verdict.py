"""What the rounds say: each goal met, missed, or not to be told; the score; and why, in sentences."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..lab.verdicts import CANNOT_TELL, ratio
from .check import Check, by_number
from .goals import MEASURES, Given

MET, MISSED, NO_GOAL = "met", "missed", "no goal"
WORDS = {
    "ttft_seconds": "first token, 95 % within",
    "tpot_seconds": "next token, 95 % within",
    "dollars_per_million": "a million tokens",
}
# A machine that is slower or faster by more than this factor than when it was measured is worth a word.
_ALIKE = 1.25
# Bare passes differ by so much from one moment to the next; and a speed that does is no other speed.
_SAME = 1.1


@dataclass(frozen=True)
class Verdict:
    """What a capstone found.

    Attributes:
        at: machine, load, goals.
        check: the texts and the parts.
        yours, reference: what `Service.timed` found, round by round; the same list where nothing is the student's own.
    """

    at: Given
    check: Check
    yours: list[dict[str, Any]]
    reference: list[dict[str, Any]]

    @property
    def has_verdict(self) -> bool:
        """Whether anything of the student's own was measured."""
        return bool(self.check.own_parts)

    @cached_property
    def slowdowns(self) -> list[float]:
        """By round, how many times longer the control took between the engine's passes than when it was measured."""
        return [statistics.median(done["control_seconds"]) / self.at.machine.products for done in self.yours]

    @cached_property
    def goals(self) -> dict[str, str]:
        """Of each measure: MET, MISSED, CANNOT_TELL or NO_GOAL."""
        return {name: self._judged(name) for name in MEASURES}

    @property
    def passed(self) -> bool:
        """Whether there is a verdict, the texts are right, and every goal is met."""
        return self.has_verdict and self.check.is_right and set(self.goals.values()) <= {MET, NO_GOAL}

    def values(self, measure: str, rounds: Sequence[dict[str, Any]]) -> list[float]:
        """Return a measure, round by round."""
        if measure == "dollars_per_million":
            return [self._price(done, sum(n for *_, n in done["requests"])) for done in rounds]
        return [done[measure] for done in rounds]

    @cached_property
    def scores(self) -> list[float]:
        """By round, the dollars for a million tokens of requests that came in time; infinite where none did."""
        return [self._price(done, sum(n for *_, n in self._in_time(done))) for done in self.yours]

    @cached_property
    def in_time(self) -> list[int]:
        """By round, the requests whose first token and whose mean wait for the next were both within the goals."""
        return [len(self._in_time(done)) for done in self.yours]

    def _in_time(self, done: dict[str, Any]) -> list[list[float]]:
        goals, never = self.at.goals, math.inf
        most = goals.ttft_seconds or never, goals.tpot_seconds or never
        return [request for request in done["requests"] if request[0] <= most[0] and request[1] <= most[1]]

    def _price(self, done: dict[str, Any], n_tokens: float) -> float:
        dollars = self.at.load.dollars_per_hour / 3600 * done["seconds"]
        return dollars / n_tokens * 1e6 if n_tokens else math.inf

    def _judged(self, measure: str) -> str:
        """Met if it is in all rounds, on a machine as fast as the goal's; missed if no busy machine explains it."""
        goal = getattr(self.at.goals, measure)
        if goal is None:
            return NO_GOAL
        values = self.values(measure, self.yours)
        steady = [1.0 if 1 / _SAME < slowdown < _SAME else slowdown for slowdown in self.slowdowns]
        allowances = [self.at.allowance(measure, slowdown) for slowdown in steady]
        if all(value <= goal * min(1.0, a) for value, a in zip(values, allowances, strict=True)):
            return MET
        if all(value > goal * max(1.0, a) for value, a in zip(values, allowances, strict=True)):
            return MISSED
        return CANNOT_TELL

    def in_words(self) -> list[str]:
        """Return the verdict, a line for each thing that it says."""
        lines = [self._whose()]
        if self.has_verdict:
            lines.append(self.check.in_words())
            if self.check.is_right:
                lines += [self._goals_in_words(), self._score_in_words(), self._speed_in_words()]
        return [*lines, *self._remarks()]

    def _whose(self) -> str:
        own, n = len(self.check.own_parts), len(self.check.working_parts)
        idle = ", ".join(sorted(self.check.idle_exercises, key=by_number))
        idle = f" Yours too, but without work under these choices, or in any engine: {idle}." if idle else ""
        if not own:
            return (
                f"None of the {n} parts that did the work is yours: this was the reference with your choices, "
                f"so there is no verdict and no score.{idle}"
            )
        if own == n:
            return f"All {n} parts that did the work are yours.{idle}"
        return f"{own} of the {n} parts that did the work are yours; the reference stood in for the others.{idle}"

    def _goals_in_words(self) -> str:
        by_verdict = {
            verdict: "; ".join(WORDS[name] for name, found in self.goals.items() if found == verdict)
            for verdict in (MISSED, CANNOT_TELL)
        }
        if not any(by_verdict.values()):
            return "All goals are met."
        words = [f"Missed: {by_verdict[MISSED]}."] if by_verdict[MISSED] else []
        unknown = by_verdict[CANNOT_TELL]
        words += [f"{CANNOT_TELL.capitalize()}: {unknown}."] if unknown else []
        return " ".join(words)

    def _score_in_words(self) -> str:
        n, requests = len(self.yours[0]["requests"]), spread(self.in_time, "{:.0f}")
        return (
            f"Score: {spread(self.scores, '{:.3f}')} $ a million tokens that came in time ({requests} of {n} requests)."
        )

    def _speed_in_words(self) -> str:
        """The ratio to the reference, told only where no round of one is among those of the other.

        Of three rounds each of the same code that happens by chance in one run of ten.
        """
        seconds = {name: [done["seconds"] for done in getattr(self, name)] for name in ("yours", "reference")}
        mine, theirs = sorted(seconds["yours"]), sorted(seconds["reference"])
        found = ratio(seconds, "reference", "yours")
        apart = len(mine) > 2 and (mine[-1] < theirs[0] or theirs[-1] < mine[0])
        apart = apart and not 1 / _SAME < found.middle < _SAME
        found = f"the reference takes {found} as long as yours"
        return f"The whole load: {found}" + ("." if apart else f"; whether that is more than chance: {CANNOT_TELL}.")

    def _remarks(self) -> list[str]:
        remarks = []
        if self.at.share >= 1 and self.at.load.rate:
            remarks.append(
                f"The load is {self.at.share:.0%} of what bare passes can write: the queue grows as long as it lasts."
            )
        slow = f"This machine was {spread(self.slowdowns, '{:.2f}')} times as slow as when it was measured"
        if max(self.slowdowns) > _ALIKE:
            remarks.append(f"{slow}: other work ran, and a goal counts as missed only where that does not explain it.")
        if min(self.slowdowns) < 1 / _ALIKE:
            remarks.append(f"{slow}, so the goals are too easy. `--measure-again` sets that right.")
        if len(self.yours) == 1:
            remarks.append("One round shows little of the speed; take three.")
        return remarks


def spread(values: Sequence[float], form: str) -> str:
    """Return "the median (the smallest to the largest)", or one value where all read the same."""
    low, middle, high = (form.format(value) for value in (min(values), statistics.median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"
