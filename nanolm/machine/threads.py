"""How many threads a model's passes are given: measured, since neither one nor all is always the faster.

Two threads read memory faster than one and share the work of large products, but they wait for each other hundreds of
times a pass: on a quiet machine by spinning, which costs little; beside another busy program for a time slice of the
system, which costs more than they gain. Which of the two holds is seen by trying.

Products may be added in another order by another number of threads, so a text is repeatable, by its seed, for as long
as that number stays the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..model.decoder import NanoLM

_MARGIN = 1.15  # all threads have to win by so much, or one keeps the work: they take other programs' processors
_SLOW = 1.5  # times the pass that the choice was made by
_AGAIN_AFTER = 10.0  # seconds between two looks
_ENOUGH = 0.5  # seconds of measuring, once each has had two rounds


@dataclass(frozen=True)
class ThreadChoice:
    """How many threads were kept, and the seconds of the fastest pass with each number that was tried."""

    threads: int
    seconds: dict[int, float]

    def __str__(self) -> str:
        tried = ", ".join(f"{s * 1e3:.2f} ms with {n}" for n, s in sorted(self.seconds.items()))
        return f"{self.threads} {'thread' if self.threads == 1 else 'threads'} (a pass takes {tried})"


def choose_threads(
    run: Callable[[], object],
    most: int | None = None,
    rounds: int = 6,
    clock: Callable[[], float] = time.perf_counter,
    set_threads: Callable[[int], None] = torch.set_num_threads,
) -> ThreadChoice:
    """Return the number of threads with which a pass is the faster, one or all, and leave torch with that number.

    All are kept if they win by 15 %. The two are tried in turns, and of each the fastest pass counts: what else the
    machine does makes a pass longer, never shorter.

    Args:
        run: runs one pass.
        most: all threads; None: as many as torch would take.
        rounds: turns of each at most; fewer, but two at least, where passes are long.
        clock, set_threads: what measures and what sets; for tests.
    """
    most = torch.get_num_threads() if most is None else most
    seconds: dict[int, float] = {}
    started = clock()
    for turn in range(rounds + 1):
        if turn > 2 and clock() - started > _ENOUGH:
            break
        for n in dict.fromkeys((1, most)):
            set_threads(n)
            run()  # the first pass after a change wakes threads up
            begin = clock()
            run()
            took = clock() - begin
            if turn:  # the first turn warms up
                seconds[n] = min(took, seconds.get(n, took))
    kept = most if seconds[most] * _MARGIN < seconds[1] else 1
    set_threads(kept)
    return ThreadChoice(kept, seconds)


class Threads:
    """The choice of threads for one model: made before its first request, and again when passes have become slow.

    Attributes:
        choice: the one that holds; None before `between_requests` was called.
    """

    def __init__(
        self,
        run: Callable[[], object],
        most: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
        set_threads: Callable[[int], None] = torch.set_num_threads,
    ) -> None:
        self._run, self._clock, self._set = run, clock, set_threads
        self._most = torch.get_num_threads() if most is None else most
        self.choice: ThreadChoice | None = None

    def _choose(self) -> ThreadChoice:
        choice = choose_threads(self._run, self._most, clock=self._clock, set_threads=self._set)
        self._looked = self._clock()
        return choice

    def between_requests(self) -> None:
        """Choose, the first time; later look whether a pass has become half as slow again, and if so choose anew.

        Call it in the thread that runs the model, never in the middle of a text. A look costs two passes, and there is
        one at most every ten seconds.
        """
        if self.choice is None:
            self.choice = self._choose()
        if self._most == 1 or self._clock() - self._looked < _AGAIN_AFTER:
            return
        if min(self._timed(), self._timed()) > _SLOW * self.choice.seconds[self.choice.threads]:
            self.choice = self._choose()
        self._looked = self._clock()

    def _timed(self) -> float:
        begin = self._clock()
        self._run()
        return self._clock() - begin


def decode_pass(model: NanoLM, rows: int = 1) -> Callable[[], object]:
    """Return a call that runs one decode pass of `rows` texts, always the same one."""
    cache = model.new_cache(rows, 16)
    tokens = torch.zeros(rows, 1, dtype=torch.long, device=model.device)

    @torch.inference_mode()
    def run() -> object:
        cache.truncate(0)
        return model(tokens, cache)

    return run
