"""Static and continuous batching, step by step, without a model: which request sits in which slot of the batch.

A step is one decode pass: every slot at work writes one token. How long a pass takes is `budget.decode_step_time`, and
the pass over the prompt is left out. What the simulators show is therefore scheduling alone: slots that stand empty
while others work, and requests that wait.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .._require import require_count

Row = tuple[int | None, ...]


@dataclass(frozen=True)
class ServingRun:
    """What a simulator did. Requests are numbered from 0, in the order of `needs`.

    Attributes:
        timeline: one row a step, in it for each slot the request at work there, or None.
        n_slots: slots, the length of each row.
        arrivals: for each request the step at which it arrived.

    Raises:
        ValueError: a row that has not one entry for each slot.
    """

    timeline: tuple[Row, ...]
    n_slots: int
    arrivals: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "timeline", tuple(tuple(row) for row in self.timeline))
        object.__setattr__(self, "arrivals", tuple(self.arrivals))
        for step, row in enumerate(self.timeline):
            if len(row) != self.n_slots:
                raise ValueError(f"timeline[{step}] has {len(row)} entries; it must have n_slots, {self.n_slots}")

    @property
    def n_steps(self) -> int:
        """Steps until the last request has ended; those count in which nothing ran because nobody had arrived."""
        return len(self.timeline)

    @property
    def utilisation(self) -> float:
        """Slots at work, over all steps, as a fraction of steps × slots; 0.0 for a run without a step."""
        busy = sum(request is not None for row in self.timeline for request in row)
        return busy / (self.n_steps * self.n_slots) if self.n_steps else 0.0

    @cached_property
    def _steps_at_work(self) -> dict[int, list[int]]:
        steps: dict[int, list[int]] = {}
        for step, row in enumerate(self.timeline):
            for request in row:
                if request is not None:
                    steps.setdefault(request, []).append(step)
        return steps

    @property
    def finished_at(self) -> tuple[int, ...]:
        """For each request the number of steps that had been run when it ended; one that needed none: its arrival."""
        ends = {request: steps[-1] + 1 for request, steps in self._steps_at_work.items()}
        return tuple(ends.get(request, arrival) for request, arrival in enumerate(self.arrivals))

    @property
    def waited(self) -> tuple[int, ...]:
        """For each request the steps between its arrival and its first step; 0 for one that needed none."""
        starts = {request: steps[0] for request, steps in self._steps_at_work.items()}
        return tuple(starts.get(request, arrival) - arrival for request, arrival in enumerate(self.arrivals))

    @property
    def latencies(self) -> tuple[int, ...]:
        """For each request the steps from its arrival to its end: all those in which it waited or worked."""
        return tuple(end - arrival for end, arrival in zip(self.finished_at, self.arrivals, strict=True))

    @property
    def mean_latency(self) -> float:
        """The mean of `latencies`; 0.0 without requests."""
        return sum(self.latencies) / len(self.latencies) if self.latencies else 0.0


def simulate_static_batching(needs: Sequence[int], n_slots: int, arrivals: Sequence[int] | None = None) -> ServingRun:
    """Return the run of a server that finishes one batch before it begins the next.

    When no batch runs, the requests that have arrived form one, first come first served, in slots 0, 1, … and at most
    n_slots of them; it does not wait to be full. Each request works in its slot for as many steps as it needs; then
    the slot stands empty until the longest request of the batch has ended. While nobody has arrived, empty steps pass.
    A request that needs 0 steps has ended when it arrives and takes no slot.

    Args:
        needs: for each request its decode passes, the tokens it gets.
        n_slots: sequences that the batch can hold.
        arrivals: for each request the first step in which it can run, in ascending order; None: 0 for all.

    Raises:
        ValueError: n_slots not a whole number above 0, a need or arrival not one of 0 or more, or arrivals that are
            not in order or not as many as needs.

    Source: Yu 2022 (Orca), section 3, on early-finished and late-joining requests.
    """
    waiting, arrivals = waiting_line(needs, n_slots, arrivals)
    timeline: list[Row] = []
    while waiting:
        batch = take_arrived(waiting, arrivals, len(timeline), n_slots)
        empty = (None,) * (n_slots - len(batch))
        for done in range(max((needs[request] for request in batch), default=1)):
            at_work = tuple(request if done < needs[request] else None for request in batch)
            timeline.append(at_work + empty)
    return ServingRun(tuple(timeline), n_slots, arrivals)


def simulate_continuous_batching(
    needs: Sequence[int], n_slots: int, arrivals: Sequence[int] | None = None
) -> ServingRun:
    """Return the run of a server that refills a slot as soon as its request has ended.

    Before every step the free slots, in their order, take the requests that have arrived, first come first served.
    Each request works in its slot for as many steps as it needs; in the next step the slot can hold another. While
    nobody has arrived, empty steps pass. A request that needs 0 steps has ended when it arrives and takes no slot.

    Args:
        needs: for each request its decode passes, the tokens it gets.
        n_slots: sequences that the batch can hold.
        arrivals: for each request the first step in which it can run, in ascending order; None: 0 for all.

    Raises:
        ValueError: n_slots not a whole number above 0, a need or arrival not one of 0 or more, or arrivals that are
            not in order or not as many as needs.

    Source: Yu 2022 (Orca), section 3, where it is called iteration-level scheduling.
    """
    waiting, arrivals = waiting_line(needs, n_slots, arrivals)
    left = list(needs)
    slots: list[int | None] = [None] * n_slots
    timeline: list[Row] = []
    while waiting or any(request is not None for request in slots):
        free = [slot for slot, request in enumerate(slots) if request is None]
        for request in take_arrived(waiting, arrivals, len(timeline), len(free)):
            slots[free.pop(0)] = request
        timeline.append(tuple(slots))
        for slot, request in enumerate(slots):
            if request is not None:
                left[request] -= 1
                slots[slot] = request if left[request] > 0 else None
    return ServingRun(tuple(timeline), n_slots, arrivals)


def waiting_line(
    needs: Sequence[int], n_slots: int, arrivals: Sequence[int] | None
) -> tuple[deque[int], tuple[int, ...]]:
    """(requests that need a step at all, in order; the arrivals of all), after a check of everything."""
    require_count(1, n_slots=n_slots)
    arrivals = (0,) * len(needs) if arrivals is None else tuple(arrivals)
    if len(arrivals) != len(needs):
        raise ValueError(f"arrivals has {len(arrivals)} entries for {len(needs)} needs; each request needs one")
    for request, (need, arrival) in enumerate(zip(needs, arrivals, strict=True)):
        require_count(0, **{f"needs[{request}]": need, f"arrivals[{request}]": arrival})
        if request and arrival < arrivals[request - 1]:
            raise ValueError(
                f"arrivals[{request}] is {arrival} after {arrivals[request - 1]}; it must be in ascending order"
            )
    return deque(request for request, need in enumerate(needs) if need), arrivals


def take_arrived(waiting: deque[int], arrivals: Sequence[int], step: int, most: int) -> list[int]:
    """Take the requests that have arrived by this step off the front of the line, at most `most`."""
    taken: list[int] = []
    while waiting and len(taken) < most and arrivals[waiting[0]] <= step:
        taken.append(waiting.popleft())
    return taken
