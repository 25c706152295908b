"""Random numbers that are counted, not taken from a state: number, block and seed are all it takes to have one again.

A generator of this kind is a hash of its counter (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
The hash here is SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"): number i of a
block is output i of a SplitMix64 that starts at the block's own 64 bits, and those are the same hash of seed, stream
and position, one after the other.

Single numbers are Python ints; rows of them numpy arrays, because numpy has the unsigned 64-bit integers, with shifts
that bring in zeros, for which torch would need a mask each time. Both wrap at 2^64.
"""

from functools import lru_cache

import numpy as np

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, odd: multiples of it visit every 64-bit number once
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _mix(bits: int) -> int:
    """Return 64 bits of which each depends on all of the given 64: SplitMix64's last step (Stafford's variant 13)."""
    bits = (bits ^ (bits >> 30)) * _FIRST & _MASK
    bits = (bits ^ (bits >> 27)) * _SECOND & _MASK
    return bits ^ (bits >> 31)


def _block(seed: int, stream: int, position: int) -> int:
    """Return the 64 bits that the numbers of one position start from. Any ints; they count modulo 2^64."""
    bits = 0
    for word in (seed, stream, position):
        bits = _mix(((bits ^ (word & _MASK)) + _STEP) & _MASK)
    return bits


def _number(block: int, index: int) -> int:
    """Return number `index` of a block, 64 bits."""
    return _mix((block + (index + 1) * _STEP) & _MASK)


@lru_cache(maxsize=8)
def _steps(V: int) -> np.ndarray:
    """How far the numbers 0 to V - 1 lie from the start of their block, (V,)."""
    steps = np.arange(1, V + 1, dtype=np.uint64) * np.uint64(_STEP)
    steps.flags.writeable = False
    return steps


def _uniforms(starts: np.ndarray, spare: np.ndarray | None = None) -> np.ndarray:
    """Return a number strictly between 0 and 1 for each block + step: 53 bits, the last one set.

    So neither end can come out: its logarithm is neither 0 nor infinite. The values are the odd multiples of 2^-53.
    `starts` is used up, and `spare`, an array like it, holds the result if it is given.
    """
    bits, shifted = starts, np.empty_like(starts) if spare is None else spare
    for distance, factor in ((30, _FIRST), (27, _SECOND), (31, None)):
        np.right_shift(bits, np.uint64(distance), out=shifted)
        bits ^= shifted
        if factor is not None:
            bits *= np.uint64(factor)
    bits >>= np.uint64(11)
    bits |= np.uint64(1)
    return np.multiply(bits.view(np.int64), 2.0**-53, out=shifted.view(np.float64))
