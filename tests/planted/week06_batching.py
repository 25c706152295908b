"""Week 6, continuous batching without a model, the line of both kinds, and the time of a step."""

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "a continuous batch refilled when it is empty",
        "for slot, request in enumerate(slots) if request is None]",
        "for slot in range(n_slots) if slots == [None] * n_slots]",
        "test_simulate_continuous_batching_of_4_1_1_1_in_two_slots_takes_4_steps",
        "that is static batching",
    ),
    (
        "a slot refilled one step late",
        "for slot, request in enumerate(slots) if request is None]",
        "for slot in range(n_slots) if slots[slot] is None and (not timeline or timeline[-1][slot] is None)]",
        "test_simulate_continuous_batching_of_4_1_1_1_in_two_slots_takes_4_steps",
        "stood empty for a step",
    ),
    (
        "one list of slots for all rows of the timeline",
        "timeline.append(tuple(slots))",
        "timeline.append(slots)",
        "test_simulate_continuous_batching_of_4_1_1_1_in_two_slots_takes_4_steps",
        "all rows are one list",
    ),
    (
        "requests that move up when a slot becomes free",
        "        free = [slot for slot",
        "        slots.sort(key=lambda request: request is None)\n        free = [slot for slot",
        "test_simulate_continuous_batching_refills_the_lowest_free_slot_first",
        "keeps its slot to its end",
    ),
    (
        "needs counted down in place",
        "left = list(needs)",
        "left = needs",
        "test_simulate_continuous_batching_of_4_1_1_1_in_two_slots_takes_4_steps",
        "changed its argument needs",
    ),
    (
        "continuous batching blind to arrivals",
        "take_arrived(waiting, arrivals, len(timeline), len(free))",
        "take_arrived(waiting, (0,) * len(needs), len(timeline), len(free))",
        "test_simulate_continuous_batching_lets_a_request_join_when_it_arrives",
        "before it had arrived",
    ),
    (
        "last come first served",
        "taken.append(waiting.popleft())",
        "taken.append(waiting.pop())",
        "test_simulate_batching_serves_first_come_first_served",
        "the last of the line was served first",
    ),
    (
        "a request for nothing takes a slot",
        "in enumerate(needs) if need), arrivals",
        "in enumerate(needs)), arrivals",
        "test_simulate_continuous_batching_ends_a_request_for_nothing_when_it_arrives",
        "takes no slot",
    ),
    (
        "a continuous batch that ends with the line",
        "    while waiting or any(request is not None for request in slots):",
        "    while waiting:",
        "test_simulate_continuous_batching_of_4_1_1_1_in_two_slots_takes_4_steps",
        "it ended when nobody waited any more",
    ),
    (
        "a continuous batch that ends with request 0 at work",
        "    while waiting or any(request is not None for request in slots):",
        "    while waiting or any(slots):",
        "test_simulate_continuous_batching_leaves_slots_empty_that_no_request_needs",
        "it ended while request 0 was at work",
    ),
    (
        "a slot taken from request 0",
        "for slot, request in enumerate(slots) if request is None]",
        "for slot, request in enumerate(slots) if not request]",
        "test_simulate_continuous_batching_of_4_1_1_1_in_two_slots_takes_4_steps",
        "request 0 lost its slot",
    ),
    (
        "the highest slot first",
        "            slots[free.pop(0)] = request",
        "            slots[free.pop()] = request",
        "test_simulate_continuous_batching_leaves_slots_empty_that_no_request_needs",
        "the highest slot was taken first",
    ),
    (
        "an idle step at the end",
        "    return ServingRun(tuple(timeline), n_slots, arrivals)\n\n\ndef waiting_line",
        "    timeline.append((None,) * n_slots)\n"
        "    return ServingRun(tuple(timeline), n_slots, arrivals)\n\n\ndef waiting_line",
        "test_simulate_continuous_batching_leaves_slots_empty_that_no_request_needs",
        "and an idle step follows",
    ),
    (
        "each works a step longer than it needs",
        "request if left[request] > 0 else None",
        "request if left[request] >= 0 else None",
        "test_simulate_continuous_batching_of_4_1_1_1_in_two_slots_takes_4_steps",
        "each works a step longer",
    ),
    (
        "slots that need no arrivals in order",
        "    waiting, arrivals = waiting_line(needs, n_slots, arrivals)\n    left = list(needs)\n",
        "    require_count(1, n_slots=n_slots)\n"
        "    arrivals = tuple(arrivals or (0,) * len(needs))\n"
        "    waiting = deque(request for request, need in enumerate(needs) if need)\n"
        "    left = list(needs)\n",
        "test_simulate_continuous_batching_refuses_bad_input",
        "impossible because of needs",
    ),
    (
        "a continuous server that ends when nobody is there",
        "        timeline.append(tuple(slots))\n",
        "        if slots == [None] * n_slots:\n            break\n        timeline.append(tuple(slots))\n",
        "test_simulate_continuous_batching_lets_a_request_join_when_it_arrives",
        "while nobody is there, empty steps pass",
    ),
]

MISTAKES = [
    {"name": name, "week": 6, "file": "workload/simulation.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
MISTAKES += [
    {
        "name": "the caches of short contexts left out of a large batch's step",
        "week": 6,
        "file": "budget/decode_batch.py",
        "old": "hardware, batch_size * kv_bytes)",
        "new": "hardware, 0)",
        "test": "test_decode_step_time_of_476_requests_is_no_longer_hidden_behind_the_weights",
        "says": "caches left out",
    }
]
