# %% a batch as pairs of request and end
def simulate_static_batching(needs, n_slots, arrivals=None):
    waiting, arrivals = waiting_line(needs, n_slots, arrivals)
    timeline = []
    while waiting:
        now = len(timeline)
        if arrivals[waiting[0]] > now:
            timeline.append((None,) * n_slots)
            continue
        ends = [(request, now + needs[request]) for request in take_arrived(waiting, arrivals, now, n_slots)]
        while any(end > len(timeline) for _, end in ends):
            row = [request if end > len(timeline) else None for request, end in ends]
            timeline.append(tuple(row + [None] * (n_slots - len(row))))
    return ServingRun(tuple(timeline), n_slots, arrivals)


# %% counted down step by step, one loop
def simulate_static_batching(needs, n_slots, arrivals=None):
    waiting, arrivals = waiting_line(needs, n_slots, arrivals)
    left, slots, timeline = list(needs), [None] * n_slots, []
    while waiting or any(s is not None for s in slots):
        if all(s is None for s in slots):
            for slot, request in enumerate(take_arrived(waiting, arrivals, len(timeline), n_slots)):
                slots[slot] = request
        timeline.append(slots.copy())
        for slot, request in enumerate(slots):
            if request is None:
                continue
            left[request] -= 1
            if not left[request]:
                slots[slot] = None
    return ServingRun(timeline, n_slots, arrivals)


# %% by batches, the rows written afterwards; the line is a list of its own
def simulate_static_batching(needs, n_slots, arrivals=None):
    _, arrivals = waiting_line(needs, n_slots, arrivals)
    line = [i for i, need in enumerate(needs) if need > 0]
    places, now, n_steps = [], 0, 0
    while line:
        now = max(now, arrivals[line[0]])
        batch = [i for i in line if arrivals[i] <= now][:n_slots]
        line = line[len(batch) :]
        for slot, i in enumerate(batch):
            places += [(now + step, slot, i) for step in range(int(needs[i]))]
        now += max(needs[i] for i in batch)
        n_steps = now
    rows = [[None] * n_slots for _ in range(int(n_steps))]
    for step, slot, i in places:
        rows[step][slot] = i
    return ServingRun(tuple(map(tuple, rows)), n_slots, arrivals)


# %% recursion over batches
def rest_of(waiting, needs, n_slots, arrivals, timeline):
    if not waiting:
        return timeline
    batch = take_arrived(waiting, arrivals, len(timeline), n_slots)
    if not batch:
        pause = arrivals[waiting[0]] - len(timeline)
        return rest_of(waiting, needs, n_slots, arrivals, timeline + [(None,) * n_slots] * pause)
    rows = []
    for step in range(max(needs[i] for i in batch)):
        row = [None] * n_slots
        for slot, i in enumerate(batch):
            if step < needs[i]:
                row[slot] = i
        rows.append(tuple(row))
    return rest_of(waiting, needs, n_slots, arrivals, timeline + rows)


def simulate_static_batching(needs, n_slots, arrivals=None):
    waiting, arrivals = waiting_line(needs=needs, n_slots=n_slots, arrivals=arrivals)
    return ServingRun(tuple(rest_of(waiting, needs, n_slots, arrivals, [])), n_slots, arrivals)
