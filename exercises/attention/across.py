"""One text's keys shared out among processes: each makes the state of its own keys, and the states become one.

A text may be too long for the memory of one machine, or one machine may read it too slowly. Then every machine keeps a
range of the keys and values. What travels in a decode step is a state, H + 2 numbers a query, and never a key.
"""

from typing import Protocol

from .flash import SoftmaxState, merge

from course import NotYetWritten


class Peers(Protocol):
    """One process among those that work together, as it sees the others.

    Attributes:
        rank: its own number, from 0 to size - 1.
        size: how many processes there are.
    """

    rank: int
    size: int

    def send(self, state: SoftmaxState, to: int) -> None:
        """Send a copy of a state to process `to`; this does not wait until it is received."""

    def receive(self, source: int) -> SoftmaxState:
        """Wait for the next state that process `source` sends to this one, and return it."""
        ...


def merge_across(state: SoftmaxState, peers: Peers) -> SoftmaxState:
    """Return the state over the keys of all processes; each of them calls this at the same time with its own state.

    No two processes have met the same key. Every process returns the same numbers, to the last bit: `merge` gives the
    same bits in either order of two states, but with three it matters which two come first. With P processes none
    sends more than ⌊log₂ P⌋ + 1 states, whether P is a power of two or not; each state that is sent is received, and
    the state handed in is not changed. A process that has met no key takes part like any other.

    Source: Thakur 2005, "Optimization of collective communication operations in MPICH" (recursive doubling).
    """
    raise NotYetWritten(
        "exercise 9.6 merge_across is not written yet: read "
        "notebooks/week09_smaller_cache/week09_smaller_cache.ipynb, write it in exercises/attention/across.py, then"
        " run: NANOLM_IMPL=exercises python -m pytest tests/attention/test_across.py --exercise merge_across"
    )
