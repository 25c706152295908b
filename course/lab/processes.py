"""Attention in processes of their own, each with a range of the keys: one's own merging, in real use.

Processes are spawned, as they can be on every system. A spawned process knows nothing of a notebook, so what was
written there travels as its source, and finds the names of `nanolm.attention.across` around it.
"""

import inspect
import math
import queue
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from multiprocessing import get_context
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nanolm.attention import SoftmaxState, across, online_softmax

_SECONDS = 60.0  # a process has to import torch


class Share(NamedTuple):
    """What one process gave back: the attention over all keys, and what it sent of states to get there."""

    result: Tensor
    n_sent: int
    bytes_sent: int


class QueuePeers:
    """One process among several, a mailbox between each two of them."""

    def __init__(self, rank: int, mailboxes: dict[tuple[int, int], Any], size: int) -> None:
        self.rank, self.size, self._mailboxes = rank, size, mailboxes
        self.n_sent = self.bytes_sent = 0

    def send(self, state: SoftmaxState, to: int) -> None:
        """Send a copy; the mailbox takes it without waiting."""
        self.n_sent, self.bytes_sent = self.n_sent + 1, self.bytes_sent + sum(part.nbytes for part in state)
        self._mailboxes[self.rank, to].put([part.numpy() for part in state])

    def receive(self, source: int) -> SoftmaxState:
        """Wait for the next state."""
        parts = self._mailboxes[source, self.rank].get(timeout=_SECONDS)
        return SoftmaxState(*map(torch.from_numpy, parts))


def attend_in_processes(
    q: Tensor, k: Tensor, v: Tensor, n_processes: int, merge_across: Callable[..., Any]
) -> list[Share]:
    """Return what each of `n_processes` gives back of a decode step, (B, N, 1, H), whose keys they share out.

    Raises:
        RuntimeError: a process failed, or waited a minute in vain; the message is its own.
    """
    context, source = get_context("spawn"), textwrap.dedent(inspect.getsource(merge_across))
    pairs = [(one, other) for one in range(n_processes) for other in range(n_processes) if one != other]
    mailboxes, answers = {pair: context.Queue() for pair in pairs}, context.Queue()
    ranges = zip(k.tensor_split(n_processes, dim=2), v.tensor_split(n_processes, dim=2), strict=True)
    workers = [
        context.Process(
            target=_attend,
            args=(rank, n_processes, mailboxes, answers, source, *(x.numpy() for x in (q, *own))),
            daemon=True,
        )
        for rank, own in enumerate(ranges)
    ]
    with _another_main():
        for worker in workers:
            worker.start()
    try:
        return _collected(answers, n_processes)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


@contextmanager
def _another_main() -> Iterator[None]:
    """A spawned process runs the main module of its parent again, be it a script without a guard: here an empty one."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _collected(answers: Any, n_processes: int) -> list[Share]:
    found: dict[int, Share] = {}
    while len(found) < n_processes:
        try:
            rank, answer = answers.get(timeout=2 * _SECONDS)
        except queue.Empty:
            missing = sorted(set(range(n_processes)) - set(found))
            raise RuntimeError(f"no word of process {missing[0]} in {2 * _SECONDS:.0f} seconds") from None
        if isinstance(answer, str):
            raise RuntimeError(f"process {rank}: {answer}")
        found[rank] = Share(torch.from_numpy(answer[0]), *answer[1:])
    return [found[rank] for rank in range(n_processes)]


def _attend(rank: int, size: int, mailboxes: Any, answers: Any, source: str, q: Any, k: Any, v: Any) -> None:
    """What each process does: the state of its own keys, merged with the others'."""
    torch.set_num_threads(1)
    try:
        names = vars(across) | {"math": math, "reduce": reduce, "torch": torch}  # an answer may use them
        exec(compile(source, "merge_across", "exec"), names)
        q, k, v = (torch.from_numpy(x) for x in (q, k, v))
        B, N, _, H = q.shape
        rows = q.reshape(B, k.shape[1], -1, H) / math.sqrt(H)
        own = online_softmax(SoftmaxState.empty(rows), rows @ k.transpose(-1, -2), v)
        peers = QueuePeers(rank, mailboxes, size)
        result = names["merge_across"](own, peers).result().view(B, N, 1, H)
        answers.put((rank, (result.numpy(), peers.n_sent, peers.bytes_sent)))
    except queue.Empty:
        answers.put((rank, f"waited {_SECONDS:.0f} seconds for a state that nobody sent"))
    except Exception as error:
        answers.put((rank, f"{type(error).__name__}: {error}"))
