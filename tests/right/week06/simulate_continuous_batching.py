# %% slots as pairs of request and steps left
def simulate_continuous_batching(needs, n_slots, arrivals=None):
    waiting, arrivals = waiting_line(needs, n_slots, arrivals)
    slots, timeline = [None] * n_slots, []
    while waiting or slots != [None] * n_slots:
        for slot in range(n_slots):
            if slots[slot] is None:
                for request in take_arrived(waiting, arrivals, len(timeline), 1):
                    slots[slot] = (request, needs[request])
        timeline.append(tuple(pair and pair[0] for pair in slots))
        slots = [(pair[0], pair[1] - 1) if pair and pair[1] > 1 else None for pair in slots]
    return ServingRun(tuple(timeline), n_slots, arrivals)


# %% when each slot is free, the rows written afterwards
def simulate_continuous_batching(needs, n_slots, arrivals=None):
    waiting, arrivals = waiting_line(needs, n_slots, arrivals)
    free, places = [0] * n_slots, []
    for request in waiting:
        start = max(arrivals[request], min(free))
        slot = next(i for i, since in enumerate(free) if since <= start)
        free[slot] = start + needs[request]
        places.append((start, slot, request))
    rows = [[None] * n_slots for _ in range(max(free))]
    for start, slot, request in places:
        for step in range(start, start + needs[request]):
            rows[step][slot] = request
    return ServingRun(tuple(tuple(row) for row in rows), n_slots, arrivals)


# %% a dictionary of slots, the line indexed
def simulate_continuous_batching(needs, n_slots, arrivals=None):
    line, arrivals = waiting_line(needs, n_slots, arrivals)
    line, at = list(line), 0
    busy, done, timeline = {}, {}, []
    while at < len(line) or busy:
        step = len(timeline)
        for slot in range(n_slots):
            if slot not in busy and at < len(line) and arrivals[line[at]] <= step:
                busy[slot] = line[at]
                at += 1
        timeline.append(tuple(busy.get(slot) for slot in range(n_slots)))
        for slot, request in list(busy.items()):
            done[request] = done.get(request, 0) + 1
            if done[request] == needs[request]:
                del busy[slot]
    return ServingRun(tuple(timeline), n_slots, arrivals)


# %% NumPy counts down
import numpy as np


def simulate_continuous_batching(needs, n_slots, arrivals=None):
    waiting, arrivals = waiting_line(needs, n_slots, arrivals)
    left, at_work = np.zeros(n_slots, dtype=int), np.full(n_slots, -1)
    timeline = []
    while len(waiting) > 0 or left.any():
        free = np.flatnonzero(left == 0)
        at_work[free] = -1
        for slot, request in zip(free, take_arrived(waiting, arrivals, len(timeline), len(free))):
            at_work[slot], left[slot] = request, needs[request]
        timeline.append(tuple(int(r) if r >= 0 else None for r in at_work))
        left = np.maximum(left - 1, 0)
    return ServingRun(tuple(timeline), n_slots, arrivals)
