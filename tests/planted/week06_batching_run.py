"""Week 6, what a run of a batch says of itself."""

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "one that never ran ends a step after its arrival",
        "ends.get(request, arrival) for",
        "ends.get(request, arrival + 1) for",
        "test_finished_at_of_a_request_that_needs_no_step_is_its_arrival",
        "not a step later",
    ),
    (
        "the wait of one that never ran looked up",
        "starts.get(request, arrival) - arrival for",
        "starts[request] - arrival for",
        "test_waited_of_a_request_that_needs_no_step_is_nothing",
        "use get, with a default",
    ),
    (
        "request 0 taken for an empty slot",
        "busy = sum(request is not None for row in self.timeline for request in row)",
        "busy = sum(bool(request) for row in self.timeline for request in row)",
        "test_utilisation_is_slots_at_work_over_steps_times_slots",
        "request 0 was taken for an empty slot",
    ),
    (
        "idle steps left out of the utilisation",
        "return busy / (self.n_steps * self.n_slots) if self.n_steps else 0.0",
        "return busy / sum(len(row) for row in self.timeline if set(row) != {None}) if self.n_steps else 0.0",
        "test_utilisation_is_slots_at_work_over_steps_times_slots",
        "a step in which nothing runs counts too",
    ),
    (
        "a request ends when its last step begins",
        "steps[-1] + 1",
        "steps[-1]",
        "test_finished_at_counts_the_step_in_which_a_request_ends",
        "one more",
    ),
    (
        "a request ends when its last step begins, beside one that never ran",
        "steps[-1] + 1",
        "steps[-1]",
        "test_finished_at_of_a_request_that_needs_no_step_is_its_arrival",
        "so 2 steps had been run when it ended",
    ),
    (
        "waiting counted from step 0",
        "starts.get(request, arrival) - arrival for",
        "starts.get(request, arrival) for",
        "test_waited_counts_from_a_request_s_own_arrival",
        "counted from step 0",
    ),
    (
        "latency counted from step 0",
        "return tuple(end - arrival for end, arrival",
        "return tuple(end for end, arrival",
        "test_latencies_are_what_a_request_waited_and_what_it_ran",
        "counted from step 0",
    ),
    (
        "the utilisation per cent",
        "return busy / (self.n_steps * self.n_slots) if",
        "return 100 * busy / (self.n_steps * self.n_slots) if",
        "test_utilisation_is_slots_at_work_over_steps_times_slots",
        "not per cent",
    ),
    (
        "a list of ends",
        "return tuple(ends.get(request, arrival) for request, arrival in enumerate(self.arrivals))",
        "return [ends.get(request, arrival) for request, arrival in enumerate(self.arrivals)]",
        "test_finished_at_counts_the_step_in_which_a_request_ends",
        "return a tuple",
    ),
    (
        "one that never ran ends at step 0",
        "ends.get(request, arrival) for",
        "ends.get(request, 0) for",
        "test_finished_at_of_a_request_that_needs_no_step_is_its_arrival",
        "and not at 0",
    ),
    (
        "one that never ran starts at step 0",
        "starts.get(request, arrival) - arrival for",
        "starts.get(request, 0) - arrival for",
        "test_waited_of_a_request_that_needs_no_step_is_nothing",
        "it waited -1 steps",
    ),
    (
        "the end less the arrival",
        "return tuple(ends.get(request, arrival) for request, arrival in enumerate(self.arrivals))",
        "return tuple(ends.get(request, arrival) - arrival for request, arrival in enumerate(self.arrivals))",
        "test_finished_at_counts_the_step_in_which_a_request_ends",
        "that is the latency",
    ),
    (
        "the first step counted as waiting",
        "starts.get(request, arrival) - arrival for",
        "starts.get(request, arrival - 1) - arrival + 1 for",
        "test_waited_counts_from_a_request_s_own_arrival",
        "its first step was counted",
    ),
    (
        "a latency of one step too many",
        "return tuple(end - arrival for end, arrival",
        "return tuple(end - arrival + 1 for end, arrival",
        "test_latencies_are_what_a_request_waited_and_what_it_ran",
        "one step too many",
    ),
    (
        "a latency of the steps at work",
        "return tuple(end - arrival for end, arrival in zip(self.finished_at, self.arrivals, strict=True))",
        "return tuple(len(self._steps_at_work.get(i, ())) for i in range(len(self.arrivals)))",
        "test_latencies_are_what_a_request_waited_and_what_it_ran",
        "steps at work alone",
    ),
    (
        "a latency without the pause",
        "return tuple(end - arrival for end, arrival in zip(self.finished_at, self.arrivals, strict=True))",
        "return tuple(wait + len(self._steps_at_work.get(i, ())) for i, wait in enumerate(self.waited))",
        "test_latencies_are_what_a_request_waited_and_what_it_ran",
        "without the pause between",
    ),
]

MISTAKES = [
    {"name": name, "week": 6, "file": "workload/simulation.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
