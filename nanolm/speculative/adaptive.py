"""Whether drafting pays right now, and how many tokens: from measured times and acceptance, with hysteresis.

A pass over few tokens costs the reading of the weights, and checking drafted tokens beside them is nearly free. Over
many it costs arithmetic, and each drafted token that is refused was work for nothing. So the same draft can double the
speed of one request and halve that of thirty, and which it is only measuring can say.
"""

from collections import deque
from collections.abc import Sequence

from .speedup import expected_tokens_per_round

# Off below the first and on again above the second: what is measured is noisy, and what is not measured costs too.
_OFF_BELOW, _ON_ABOVE = 1.05, 1.15
# So many passes are run the other way after each wait; a wait that has changed nothing doubles.
_PROBE = 2
_FIRST_WAIT, _LONGEST_WAIT = 32, 1024
_LAST, _ENOUGH = 9, 3
_FADE = 0.99


class PassTimes:
    """Seconds of a pass by the number of tokens in it: measured at steps of √2, straight lines between them."""

    def __init__(self) -> None:
        self._measured: dict[int, deque[float]] = {}
        self._points: dict[int, tuple[int, float]] = {}  # tokens and seconds of each step

    def add(self, n_tokens: int, seconds: float) -> None:
        """Count one pass."""
        last = self._measured.setdefault(_step(n_tokens), deque(maxlen=_LAST))
        last.append(seconds)
        self._points[_step(n_tokens)] = n_tokens, _usual(last)

    def is_known(self, n_tokens: int) -> bool:
        """Whether so many tokens have been run often enough to trust their time."""
        return len(self._measured.get(_step(n_tokens), ())) >= _ENOUGH

    def seconds(self, n_tokens: float) -> float | None:
        """Return the seconds that so many tokens take; None where no pass came near (within a factor of 4)."""
        known = sorted(self._points.values())
        below = [point for point in known if point[0] <= n_tokens]
        above = [point for point in known if point[0] >= n_tokens]
        if below and above:
            (n0, s0), (n1, s1) = below[-1], above[0]
            return s0 if n1 == n0 else s0 + (s1 - s0) * (n_tokens - n0) / (n1 - n0)
        if below and n_tokens <= 4 * below[-1][0]:
            return below[-1][1] * n_tokens / below[-1][0]  # as if all of it were arithmetic: the careful guess
        if above and above[0][0] <= 4 * n_tokens:
            return above[0][1]  # as if all of it were reading
        return None


def _step(n_tokens: int) -> int:
    return (n_tokens * n_tokens).bit_length()


def _usual(last: Sequence[float]) -> float:
    """The lower third: what else a machine does only ever adds."""
    return sorted(last)[(len(last) - 1) // 3]


class AdaptiveGamma:
    """Chooses how many tokens to draft for each decoding request of a pass; 0 where drafting does not pay.

    Args:
        most: the γ asked for, 1 or more; never more are drafted.
        adaptive: False always drafts as many as asked for, and only counts.

    Attributes:
        gain: predicted tokens a second with the best γ over those without drafts; NaN before it can be told.
        is_on: whether it drafts.
        n_drafted, n_accepted: counts of drafted tokens, all and those that became text.
    """

    def __init__(self, most: int, adaptive: bool = True) -> None:
        self.most, self.adaptive = most, adaptive
        self.gain, self.is_on = float("nan"), True
        self.n_drafted = self.n_accepted = 0
        self._target, self._draft = PassTimes(), PassTimes()
        self._examined, self._kept = 0.0, 0.0  # fading counts
        self._wished, self._found = 0.0, 0.0
        self._tried, self._wait, self._since = 0, _FIRST_WAIT, 0

    @property
    def alpha(self) -> float:
        """The acceptance rate of late; NaN before the first drafted token."""
        return self._kept / self._examined if self._examined else float("nan")

    def gamma(self, n_decoding: int) -> int:
        """Return how many tokens to draft for each of n requests that decode, 0 to `most`."""
        if not self.adaptive or not n_decoding:
            return self.most
        if not self._target.is_known(n_decoding):
            return 0  # nothing to compare with yet: passes without drafts first
        self._tried += self._tried < _ENOUGH
        if self._tried < _ENOUGH:
            return self.most
        best = self._best(n_decoding)
        if self.gain < _OFF_BELOW if self.is_on else self.gain > _ON_ABOVE:
            self.is_on, self._wait, self._since = not self.is_on, _FIRST_WAIT, 0
        self._since += 1
        if self._since > self._wait + _PROBE:
            self._since, self._wait = 0, min(2 * self._wait, _LONGEST_WAIT)
        is_probe = self._since > self._wait  # the other way for a moment, so that both times are of late
        return best if self.is_on != is_probe else 0

    def count(self, n_wished: int, n_drafted: int, n_examined: int, n_accepted: int) -> None:
        """Count a request's drafted tokens of one pass: asked for, found, looked at, and kept."""
        self.n_drafted += n_drafted
        self.n_accepted += n_accepted
        self._examined = self._examined * _FADE + n_examined
        self._kept = self._kept * _FADE + n_accepted
        self._wished = self._wished * _FADE + n_wished
        self._found = self._found * _FADE + n_drafted

    def time_target(self, n_tokens: int, seconds: float) -> None:
        """Count a pass of the target over so many tokens of decoding requests, drafted ones among them."""
        self._target.add(n_tokens, seconds)

    def time_draft(self, n_rows: int, seconds: float) -> None:
        """Count one token of each of n rows, drafted in so many seconds."""
        self._draft.add(n_rows, seconds)

    def _best(self, n: int) -> int:
        """Return the γ with the largest gain at n requests, and note that gain; `most` while it cannot be told."""
        plain, per_token = self._target.seconds(n), self._draft.seconds(n) or 0.0
        gains: dict[int, float] = {}
        share = self._found / self._wished if self._wished else 1.0
        for gamma in range(1, self.most + 1):
            checked = self._target.seconds(n * (1 + gamma * share))
            if plain is None or checked is None or not self._examined:
                continue
            tokens = 1 + share * (expected_tokens_per_round(self.alpha, gamma) - 1)
            seconds = checked + gamma * per_token
            gains[gamma] = tokens * plain / seconds if seconds else tokens
        if not gains:
            return self.most
        best = max(gains, key=lambda gamma: (gains[gamma], -gamma))
        self.gain = gains[best]
        return best
