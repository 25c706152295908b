"""Week 6, static batching without a model."""

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "the batch ends with its shortest request",
        "max((needs[request] for request in batch), default=1)",
        "min((needs[request] for request in batch), default=1)",
        "test_simulate_static_batching_of_4_1_1_1_in_two_slots_takes_5_steps",
        "ended with its shortest request",
    ),
    (
        "a static batch that takes new requests while it runs",
        "    while waiting:\n        batch =",
        "    return simulate_continuous_batching(needs, n_slots, arrivals)\n    while waiting:\n        batch =",
        "test_simulate_static_batching_of_4_1_1_1_in_two_slots_takes_5_steps",
        "that is continuous batching",
    ),
    (
        "a static batch in which everybody works a step too long",
        "request if done < needs[request] else None",
        "request if done <= needs[request] else None",
        "test_simulate_static_batching_of_4_1_1_1_in_two_slots_takes_5_steps",
        "works on after its one step",
    ),
    (
        "a static server that ends when nobody is there",
        "        empty = (None,) * (n_slots - len(batch))\n",
        "        if not batch:\n            break\n        empty = (None,) * (n_slots - len(batch))\n",
        "test_simulate_static_batching_forms_a_batch_from_those_who_have_arrived",
        "empty steps pass",
    ),
    (
        "static batching blind to arrivals",
        "batch = take_arrived(waiting, arrivals, len(timeline), n_slots)",
        "batch = take_arrived(waiting, (0,) * len(needs), len(timeline), n_slots)",
        "test_simulate_static_batching_forms_a_batch_from_those_who_have_arrived",
        "before it had arrived",
    ),
    (
        "waiting for a full batch",
        "batch = take_arrived(waiting, arrivals, len(timeline), n_slots)",
        "last = arrivals[list(waiting)[:n_slots][-1]]\n"
        "        timeline += [(None,) * n_slots] * (last - len(timeline))\n"
        "        batch = take_arrived(waiting, arrivals, len(timeline), n_slots)",
        "test_simulate_static_batching_does_not_wait_for_a_full_batch",
        "begins with whoever is there",
    ),
    (
        "a request for nothing takes a slot of a batch",
        "in enumerate(needs) if need), arrivals",
        "in enumerate(needs)), arrivals",
        "test_simulate_static_batching_ends_a_request_for_nothing_when_it_arrives",
        "took a slot of the batch",
    ),
    (
        "a static batch of four slots that ends with its shortest request",
        "max((needs[request] for request in batch), default=1)",
        "min((needs[request] for request in batch), default=1)",
        "test_simulate_static_batching_leaves_slots_empty_that_no_request_needs",
        "ended with its shortest request",
    ),
    (
        "rows without the empty slots",
        "            timeline.append(at_work + empty)",
        "            timeline.append(at_work)",
        "test_simulate_static_batching_leaves_slots_empty_that_no_request_needs",
        "an entry for each of the 4 slots",
    ),
    (
        "an empty step between two batches",
        "            timeline.append(at_work + empty)\n",
        "            timeline.append(at_work + empty)\n        timeline.append((None,) * n_slots)\n",
        "test_simulate_static_batching_of_4_1_1_1_in_two_slots_takes_5_steps",
        "a step passed between two batches",
    ),
    (
        "empty slots first",
        "            timeline.append(at_work + empty)\n",
        "            timeline.append(empty + at_work)\n",
        "test_simulate_static_batching_leaves_slots_empty_that_no_request_needs",
        "the first slots stayed empty",
    ),
    (
        "a batch that needs no arrivals in order",
        "    waiting, arrivals = waiting_line(needs, n_slots, arrivals)\n    timeline: list[Row] = []\n",
        "    require_count(1, n_slots=n_slots)\n"
        "    arrivals = tuple(arrivals or (0,) * len(needs))\n"
        "    waiting = deque(request for request, need in enumerate(needs) if need)\n"
        "    timeline: list[Row] = []\n",
        "test_simulate_static_batching_refuses_bad_input",
        "impossible because of needs",
    ),
]

MISTAKES = [
    {"name": name, "week": 6, "file": "workload/simulation.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
