"""Processes that send each other states, played by threads: sends are counted, a wait without end is found."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nanolm.attention import SoftmaxState


class Stuck(Exception):
    """A process waits for something that nobody will send."""


@dataclass
class Talk:
    """What came of it: each process's result, how often each sent, and what was sent to whom and never received."""

    results: list[Any]
    n_sent: list[int]
    unread: list[tuple[int, int]] = field(default_factory=list)


class _Room:
    """Mailboxes of all pairs, and who waits for whom."""

    def __init__(self, size: int) -> None:
        self.size, self.changed = size, threading.Condition()
        self.boxes: dict[tuple[int, int], deque] = defaultdict(deque)
        self.waiting: dict[int, int] = {}
        self.ended: set[int] = set()
        self.n_sent = [0] * size

    def put(self, source: int, to: int, state: SoftmaxState) -> None:
        if not 0 <= to < self.size:
            raise Stuck(f"process {source} sends to process {to}: there is no process {to} among {self.size}")
        with self.changed:
            self.n_sent[source] += 1
            self.boxes[source, to].append(SoftmaxState(*(part.clone() for part in state)))
            self.changed.notify_all()

    def take(self, source: int, to: int) -> SoftmaxState:
        with self.changed:
            self.waiting[to] = source
            while not self.boxes[source, to]:
                if all(self._is_stuck(rank) for rank in range(self.size)):
                    self.changed.notify_all()
                    raise Stuck(f"process {to} of {self.size} waits for process {source}, which sends it nothing")
                self.changed.wait()
            del self.waiting[to]
            return self.boxes[source, to].popleft()

    def end(self, rank: int) -> None:
        with self.changed:
            self.ended.add(rank)
            self.changed.notify_all()

    def _is_stuck(self, rank: int) -> bool:
        return rank in self.ended or (rank in self.waiting and not self.boxes[self.waiting[rank], rank])


@dataclass
class _Peers:
    rank: int
    size: int
    room: _Room

    def send(self, state: SoftmaxState, to: int) -> None:
        self.room.put(self.rank, to, state)

    def receive(self, source: int) -> SoftmaxState:
        return self.room.take(source, self.rank)


def talk(call: Callable[..., Any], states: list[SoftmaxState]) -> Talk:
    """Return what came of call(state, peers) in a process for each state; raise what one of them raised."""
    room, results, errors = _Room(len(states)), [None] * len(states), {}

    def run(rank: int) -> None:
        try:
            results[rank] = call(states[rank], _Peers(rank, len(states), room))
        except Exception as error:
            errors[rank] = error
        finally:
            room.end(rank)

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(len(states))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # An error of its own explains why others wait in vain.
    for error in sorted(errors.values(), key=lambda error: isinstance(error, Stuck)):
        raise error
    return Talk(results, room.n_sent, [pair for pair, box in room.boxes.items() if box])
