"""Week 9, states merged across processes."""

SEND = "        peers.send(state, partner)\n        state = merge(state, peers.receive(partner))\n"
CIRCLE = """    before, after, travelling = (rank - 1) % peers.size, (rank + 1) % peers.size, state
    for _ in range(1, peers.size):
        peers.send(travelling, after)
        travelling = peers.receive(before)
        state = merge(state, travelling)
    return state
"""
ORDERED = """    from functools import reduce
    met, travelling = {rank: state}, state
    for step in range(1, peers.size):
        peers.send(travelling, (rank + 1) % peers.size)
        met[(rank - step) % peers.size] = travelling = peers.receive((rank - 1) % peers.size)
    return reduce(merge, [met[other] for other in range(peers.size)])
"""
START = "    rank, n_paired = peers.rank, 1\n"
ONCE = "test_merge_across_counts_every_process_s_keys_once"
BITS = "test_merge_across_gives_every_process_the_same_bits"
BY_HAND = "test_merge_across_two_processes_by_hand"

# (name, old, new, test, what its message says)
_MISTAKES = [
    (
        "both partners wait before they send",
        SEND,
        SEND.replace("        peers.send(state, partner)\n", "").replace(
            "state = merge(state, peers.receive(partner))",
            "other = peers.receive(partner)\n        peers.send(state, partner)\n        state = merge(state, other)",
        ),
        BY_HAND,
        "both partners send before they receive",
    ),
    (
        "one of two partners sends what it has merged",
        SEND,
        "        if rank < partner:\n            peers.send(state, partner)\n"
        "        state = merge(state, peers.receive(partner))\n"
        "        if rank > partner:\n            peers.send(state, partner)\n",
        ONCE,
        "counts the keys of process 0 2 times",
    ),
    (
        "partners round a circle in place of pairs",
        "partner = rank ^ distance",
        "partner = (rank + distance) % n_paired",
        ONCE,
        "which sends it nothing",
    ),
    ("distances that grow too fast", "distance *= 2", "distance *= 4", ONCE, "misses the keys of process"),
    (
        "the keys of those without a place in the pairs lost",
        "state = merge(state, peers.receive(rank + n_paired))",
        "peers.receive(rank + n_paired)",
        ONCE,
        "misses the keys of process",
    ),
    (
        "those without a place keep their own state",
        "return peers.receive(rank - n_paired)",
        "return peers.receive(rank - n_paired) and state",
        ONCE,
        "misses the keys of process",
    ),
    (
        "nobody tells those without a place",
        "        peers.send(state, rank + n_paired)\n",
        "        pass\n",
        ONCE,
        "which sends it nothing",
    ),
    (
        "pairs with a process that does not exist",
        "while 2 * n_paired <= peers.size:",
        "while n_paired < peers.size:",
        ONCE,
        "there is no process",
    ),
    ("states round a circle, merged as they come", START, START + CIRCLE, BITS, "in the last bits"),
    (
        "as many states as there are processes",
        START,
        START + ORDERED,
        "test_merge_across_sends_about_as_many_states_as_the_number_of_processes_has_digits",
        "if each round doubles",
    ),
    (
        "the mean of two means",
        "state = merge(state, peers.receive(partner))",
        "other = peers.receive(partner)\n        state = SoftmaxState(state.maximum.maximum(other.maximum), "
        "0 * state.total + 1, (state.result() + other.result()) / 2)",
        BY_HAND,
        "the mean of two means",
    ),
    (
        "sums of two processes added without rescaling",
        "state = merge(state, peers.receive(partner))",
        "other = peers.receive(partner)\n        state = SoftmaxState(state.maximum.maximum(other.maximum), "
        "state.total + other.total, state.weighted + other.weighted)",
        BY_HAND,
        "no rescaling",
    ),
    (
        "a state handed in changed in place",
        START,
        START + "    state.total.mul_(1.5)\n",
        "test_merge_across_leaves_the_state_it_got_as_it_was",
        "changed its argument state",
    ),
    (
        "those without a key say nothing",
        SEND,
        "        if not state.total.any():\n            return state\n" + SEND,
        "test_merge_across_takes_part_without_a_key_too",
        "waits for process",
    ),
]
MISTAKES = [
    {
        "name": f"across, {name}",
        "week": 9,
        "file": "attention/across.py",
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, old, new, test, says in _MISTAKES
]
