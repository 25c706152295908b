"""The two random choices of the whole package, behind one object.

Everything random passes through `bernoulli` and `categorical`. That is what lets a test put an enumerator in the
rng's place, follow *every* outcome with its weight, and add up the exact distribution of a sampled algorithm.

A draw has a position, counted from 0, and its number is a pure function of seed, stream and position. So whoever knows
the position can draw the same again: after a pass that failed, after a preemption, in any batch.
"""

import secrets
from collections.abc import Sequence
from numbers import Integral

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from .counter import _block, _number, _steps, _uniforms

# Numbers hashed at once: so few that their arrays stay in a processor's own cache.
_AT_ONCE = 1 << 16
# Arrival times are taken times this power of two, so that even the smallest float64 over one of them stays above 0.
_SCALE = 2.0**-600


class Rng:
    """Randomness that can be drawn again.

    Args:
        seed: an int, of which the lowest 64 bits count, for a repeatable run; None for one from the operating system.
        position: of the first draw.
        stream: numbers of the same seed that have nothing to do with those of other streams.

    Attributes:
        seed, stream: as given, from 0 to 2^64 - 1.
        position: of the next draw. Each draw adds 1; set it to draw from elsewhere.

    Raises:
        ValueError: a seed, position or stream that is not an int.
    """

    def __init__(self, seed: int | None = None, position: int = 0, stream: int = 0) -> None:
        seed = secrets.randbits(64) if seed is None else seed
        for name, value in (("seed", seed), ("position", position), ("stream", stream)):
            if not isinstance(value, Integral) or isinstance(value, bool):
                raise ValueError(f"{name} is {value!r}; it must be an int, of which the lowest 64 bits count")
        self.seed, self.position, self.stream = int(seed) % 2**64, int(position), int(stream) % 2**64

    def __repr__(self) -> str:
        return f"Rng(seed={self.seed}, position={self.position}, stream={self.stream})"

    def at(self, position: int, stream: int = 0) -> "Rng":
        """Return another Rng of the same seed, at a position and in a stream of its own."""
        return Rng(self.seed, position, stream)

    def bernoulli(self, prob: float) -> bool:
        """Return True with probability `prob`: never at 0, always at 1 or above."""
        # 53 bits in [0, 1): strictly less is what makes 0 impossible and 1 certain.
        return (_number(self._next_block(), 0) >> 11) * 2.0**-53 < prob

    def categorical(self, probs: Float[Tensor, "V"]) -> int:
        """Return an index drawn with the given probabilities; one of probability 0 is never drawn.

        It is a race: index v arrives after the time E_v / p_v, E_v exponential from number v of this position, and the
        first to arrive is drawn. That has the given probabilities, whatever they sum to (Maddison, Tarlow, Minka 2014,
        "A* sampling", where the logarithms of the times are Gumbel-max). Unlike one point on a line of running totals,

        - it draws rows of different seeds in one operation over them all (`draw_rows`);
        - two distributions that are drawn at the same position mostly give the same index, so a draft can guess the
          token that a seed will choose: with probability (1 - d)/(1 + d) or more, where d is their total variation
          distance and a token drawn by itself is kept with 1 - d (Daliri, Musco, Suresh 2024, arXiv:2408.07978).

        Raises:
            ValueError: no probability above 0, or a NaN.
        """
        return draw_rows(probs[None], [self])[0]

    def _next_block(self) -> int:
        self.position += 1
        return _block(self.seed, self.stream, self.position - 1)


def draw_rows(probs: Float[Tensor, "B V"], rng: Sequence[Rng]) -> list[int]:
    """Return one index a row: what `rng[b].categorical(probs[b])` gives for row b, all rows at once.

    Every rng is advanced by one draw. The probabilities may be on any device and of any float type.

    Raises:
        ValueError: a row with no probability above 0, or with a NaN; not one rng a row.
    """
    B, V = probs.shape
    if len(rng) != B:
        raise ValueError(f"rng has {len(rng)} entries for {B} rows; each row needs its own")
    blocks = np.array([each._next_block() for each in rng], dtype=np.uint64)
    rows = probs.detach().to("cpu", torch.float64).contiguous().numpy()
    n = max(1, _AT_ONCE // max(1, V))
    # Fresh memory for every few rows would cost more than the arithmetic on it.
    work = np.empty((2, min(n, B), V), dtype=np.uint64)
    winners = [i for b in range(0, B, n) for i in _race(rows[b : b + n], blocks[b : b + n], work[:, : B - b])]
    wrong = next((b for b, index in enumerate(winners) if not rows[b, index] > 0), None)
    if wrong is not None:
        raise ValueError(f"probs hold a NaN or nothing above 0 in row {wrong}; an index needs a probability")
    return winners


def _race(probs: np.ndarray, blocks: np.ndarray, work: np.ndarray) -> list[int]:
    """The index that arrives first in each row of probabilities (b, V), from the rows' blocks (b,).

    p/E is compared, the largest wins: 0 for p = 0, and nothing overflows. `work` is room for two arrays like probs.
    """
    b, V = probs.shape
    is_possible = probs.ravel() != 0
    if 2 * np.count_nonzero(is_possible) > probs.size:
        times = _exponentials(np.add(blocks[:, None], _steps(V), out=work[0]), work[1])
        return np.divide(probs, times, out=times).argmax(-1).tolist()
    # After top-k or top-p most are 0 and have no need of a number.
    possible = np.flatnonzero(is_possible)
    rows, ids = np.divmod(possible, V)
    speeds = probs.ravel()[possible] / _exponentials(blocks[rows] + _steps(V)[ids])
    ends = np.searchsorted(rows, np.arange(b), side="right").tolist()
    pieces = zip([0, *ends], ends, strict=False)
    return [int(ids[start + speeds[start:end].argmax()]) if start < end else 0 for start, end in pieces]


def _exponentials(starts: np.ndarray, spare: np.ndarray | None = None) -> np.ndarray:
    """Exponentially distributed numbers, times _SCALE, all above 0."""
    uniform = _uniforms(starts, spare)
    np.log(uniform, out=uniform)
    return np.multiply(uniform, -_SCALE, out=uniform)
