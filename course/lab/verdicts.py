"""What a measurement allows to say: a sentence made of the figures themselves, which owns up where they say nothing."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CANNOT_TELL = "cannot tell on this run"
ROUNDS_TO_TELL = 3  # of two rounds both favour the same one by chance in every second run, of three in every fourth
_TRIMMED = 5  # rounds from which on the smallest and the largest ratio do not count
# How far the logarithms of the rounds must be from 0, in widths of their own spread, so that of equal speeds at most
# one run in twenty is told: few rounds agree by chance, and three that are left of five do so more often than four.
_CLEARANCE = {3: 1.0, 4: 0.25, 5: 1.6, 6: 0.6, 7: 0.25, 8: 0.1}
_WIDEST = 2.0  # the largest round over the smallest: rounds further apart than that agree with any prediction


@dataclass(frozen=True)
class Ratio:
    """How many times one thing is another, round by round: what two calls that took turns allow to say.

    Attributes:
        low, middle, high: the smallest ratio of a round, the median, the largest. Of five rounds or more the two ends
            do not count: other work on the machine may hit one round.
        n_rounds: how many rounds there were.
    """

    low: float
    middle: float
    high: float
    n_rounds: int

    @property
    def is_told(self) -> bool:
        """Whether low and high lie on one side of 1, there are rounds enough, and chance would seldom part them so."""
        if self.n_rounds < ROUNDS_TO_TELL or self.low <= 0:
            return False
        # Logarithms, so that it makes no difference which of the two is asked for: 8 to 17, or 1/17 to 1/8.
        low, high = math.log(self.low), math.log(self.high)
        clear = max(low, -high)
        return clear > 0 and clear >= _CLEARANCE.get(self.n_rounds, 0.0) * (high - low)

    def __str__(self) -> str:
        which = f"{self.n_rounds} rounds" if self.n_rounds < _TRIMMED else f"all but 2 of {self.n_rounds} rounds"
        spread = f"{self.low:.2f} to {self.high:.2f} in {which}"
        return f"{self.middle:.2f}× ({spread if self.n_rounds > 1 else 'one round'})"


def ratio(seconds: Mapping[str, Sequence[float]], slow: str, fast: str) -> Ratio:
    """Return how many times as long `slow` takes as `fast`, by rounds; `seconds` as `take_turns` returns them.

    Raises:
        ValueError: a name that was not measured.
    """
    for name in (slow, fast):
        if name not in seconds:
            raise ValueError(f"{name!r} was not measured; those were {', '.join(seconds)}")
    rounds = sorted(a / b for a, b in zip(seconds[slow], seconds[fast], strict=True))
    kept = rounds if len(rounds) < _TRIMMED else rounds[1:-1]
    return Ratio(kept[0], statistics.median(rounds), kept[-1], len(rounds))


def which_is_faster(seconds: Mapping[str, Sequence[float]], one: str, other: str) -> str:
    """Return "one is 1.30× (1.24 to 1.41 in 5 rounds) as fast as other", or that this run cannot tell."""
    found = ratio(seconds, other, one)
    if not found.is_told:
        return f"{one} against {other}: {CANNOT_TELL}, {found}"
    if found.middle < 1:
        return which_is_faster(seconds, other, one)
    return f"{one} is {found} as fast as {other}"


def fastest_of(seconds: Mapping[str, Sequence[float]]) -> str:
    """Return the name of the shortest median; that this run cannot tell where the rounds do not part it from the next.

    Raises:
        ValueError: fewer than two names.
    """
    if len(seconds) < 2:
        raise ValueError(f"seconds has {len(seconds)} names; to name the fastest takes two or more")
    first, second, *_ = sorted(seconds, key=lambda name: statistics.median(seconds[name]))
    found = ratio(seconds, second, first)
    if found.is_told and found.middle > 1:
        return first
    return f"{CANNOT_TELL} ({first} or {second}: {second} takes {found} as long)"


def against_prediction(measured: Sequence[float], predicted: float, unit: str = "ms", scale: float = 1e3) -> str:
    """Return measured beside predicted, both in `unit`, with their ratio and what the spread of the rounds allows.

    Args:
        measured: seconds of each round.
        predicted: seconds.
        unit, scale: what is printed, and how many of it make a second.
    """
    low, middle, high = min(measured), statistics.median(measured), max(measured)
    spread = f"{middle * scale:.3g} ({low * scale:.3g} to {high * scale:.3g})"
    text = f"predicted {predicted * scale:.3g} {unit}, measured {spread}"
    wide = high > _WIDEST * low
    if low <= predicted <= high:
        found = f"{CANNOT_TELL}, the longest round took {high / low:.1f} times the shortest" if wide else ""
        return f"{text}: {found or 'the prediction lies within what was measured'}"
    times = f"{low / predicted:.2f} to {high / predicted:.2f}" if wide else f"{middle / predicted:.2f}"
    return f"{text}: measured is {times} of the prediction"


def largest(values: Mapping[str, float], least_lead: float = 1.05) -> str:
    """Return the name of the largest value; "cannot tell on this run" where the second comes within `least_lead`."""
    ordered = sorted(values, key=lambda name: values[name], reverse=True)
    lead = values[ordered[0]] / values[ordered[1]] if len(ordered) > 1 and values[ordered[1]] else float("inf")
    close = f"{CANNOT_TELL} ({' and '.join(ordered[:2])} are within {least_lead - 1:.0%})"
    return ordered[0] if lead >= least_lead else close


def surely_largest(values: Mapping[str, float], errors: Mapping[str, float]) -> str:
    """Return the name of the largest of some sampled values; that this run cannot tell it from those that may be.

    Args:
        values: two or more.
        errors: the standard error of each. Within two of that of a difference chance explains the difference.

    Raises:
        ValueError: a value without an error.
    """
    missing = [name for name in values if name not in errors]
    if missing:
        raise ValueError(f"errors has none for {', '.join(missing)}; each value needs one")
    first, *others = sorted(values, key=lambda name: values[name], reverse=True)
    close = [name for name in others if values[first] - values[name] <= 2 * math.hypot(errors[first], errors[name])]
    return f"{CANNOT_TELL} ({' or '.join([first, *close])})" if close else first
