# %% a search through the rows for each request
@dataclass(frozen=True)
class ServingRun:
    timeline: tuple
    n_slots: int
    arrivals: tuple

    @property
    def utilisation(self):
        seats = len(self.timeline) * self.n_slots
        taken = 0
        for row in self.timeline:
            taken += self.n_slots - row.count(None)
        return taken / seats if seats > 0 else 0.0

    @property
    def finished_at(self):
        ends = []
        for request, arrival in enumerate(self.arrivals):
            end = arrival
            for step, row in enumerate(self.timeline):
                if request in row:
                    end = step + 1
            ends.append(end)
        return tuple(ends)

    @property
    def waited(self):
        waits = []
        for request, arrival in enumerate(self.arrivals):
            first = next((step for step, row in enumerate(self.timeline) if request in row), arrival)
            waits.append(first - arrival)
        return tuple(waits)

    @property
    def latencies(self):
        return tuple(map(lambda end, arrival: end - arrival, self.finished_at, self.arrivals))


# %% by _steps_at_work, with conditions
@dataclass(frozen=True)
class ServingRun:
    timeline: tuple
    n_slots: int
    arrivals: tuple

    @property
    def utilisation(self):
        if not self.timeline:
            return 0.0
        return sum(len(steps) for steps in self._steps_at_work.values()) / self.n_steps / self.n_slots

    @property
    def finished_at(self):
        work = self._steps_at_work
        return tuple(max(work[i]) + 1 if i in work else self.arrivals[i] for i in range(len(self.arrivals)))

    @property
    def waited(self):
        work = self._steps_at_work
        return tuple(min(work[i]) - self.arrivals[i] if i in work else 0 for i in range(len(self.arrivals)))

    @property
    def latencies(self):
        work = self._steps_at_work
        return tuple(work[i][-1] - arrival + 1 if i in work else 0 for i, arrival in enumerate(self.arrivals))


# %% NumPy inside
import numpy as np


@dataclass(frozen=True)
class ServingRun:
    timeline: tuple
    n_slots: int
    arrivals: tuple

    def _table(self):
        return np.array([[-1 if r is None else r for r in row] for row in self.timeline]).reshape(-1, self.n_slots)

    @property
    def utilisation(self):
        table = self._table()
        return float(np.mean(table >= 0)) if table.size else 0.0

    @property
    def finished_at(self):
        steps = [np.flatnonzero((self._table() == i).any(axis=1)) for i in range(len(self.arrivals))]
        return tuple(int(s[-1]) + 1 if len(s) else a for s, a in zip(steps, self.arrivals))

    @property
    def waited(self):
        steps = [np.flatnonzero((self._table() == i).any(axis=1)) for i in range(len(self.arrivals))]
        return tuple(s[0] - a if len(s) else 0 for s, a in zip(steps, self.arrivals))

    @property
    def latencies(self):
        return tuple((np.array(self.finished_at, dtype=int) - np.array(self.arrivals, dtype=int)).tolist())


# %% one pass over the rows, overwriting
@dataclass(frozen=True)
class ServingRun:
    timeline: tuple
    n_slots: int
    arrivals: tuple

    @cached_property
    def first_and_last(self):
        first, last = list(self.arrivals), list(self.arrivals)
        seen = set()
        for step, row in enumerate(self.timeline):
            for request in filter(lambda r: r is not None, row):
                last[request] = step + 1
                if request not in seen:
                    seen.add(request)
                    first[request] = step
        return first, last

    @property
    def utilisation(self):
        busy = sum(1 for row in self.timeline for r in row if r is not None)
        try:
            return busy / (self.n_steps * self.n_slots)
        except ZeroDivisionError:
            return 0.0

    @property
    def finished_at(self):
        return tuple(self.first_and_last[1])

    @property
    def waited(self):
        return tuple(first - arrival for first, arrival in zip(self.first_and_last[0], self.arrivals))

    @property
    def latencies(self):
        return tuple(end - arrival for end, arrival in zip(self.finished_at, self.arrivals))
