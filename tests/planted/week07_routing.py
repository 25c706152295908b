"""Week 7, which of several machines serves a prompt."""

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "routing by load alone",
        "key=lambda i: (replicas[i].cached_tokens(prompt), -replicas[i].load, -i))",
        "key=lambda i: (-replicas[i].load, replicas[i].cached_tokens(prompt), -i))",
        "test_route_by_prefix_goes_where_most_of_the_prompt_is_cached",
        "the least load alone decided",
    ),
    (
        "routing by the cache alone",
        "key=lambda i: (replicas[i].cached_tokens(prompt), -replicas[i].load, -i))",
        "key=lambda i: (replicas[i].cached_tokens(prompt), -i))",
        "test_route_by_prefix_takes_the_least_load_of_equals_then_the_first",
        "the least loaded is taken",
    ),
    (
        "no guard against overload",
        "if replica.load <= heaviest]",
        "if True]",
        "test_route_by_prefix_passes_over_a_replica_with_too_much_extra_load",
        "only 4 more are allowed",
    ),
    (
        "the last of equals",
        "key=lambda i: (replicas[i].cached_tokens(prompt), -replicas[i].load, -i))",
        "key=lambda i: (replicas[i].cached_tokens(prompt), -replicas[i].load, i))",
        "test_route_by_prefix_takes_the_least_load_of_equals_then_the_first",
        "the first of them, not the last",
    ),
    (
        "exactly as much as allowed left out",
        "if replica.load <= heaviest]",
        "if replica.load < heaviest or replica.load == heaviest - max_extra_load]",
        "test_route_by_prefix_passes_over_a_replica_with_too_much_extra_load",
        "exactly as much as allowed is allowed",
    ),
    (
        "extra load above that of the one with most cached",
        "heaviest = min(replica.load for replica in replicas) + max_extra_load",
        "heaviest = min((r.load for r in replicas if r.cached_tokens(prompt)), default=0) + max_extra_load",
        "test_route_by_prefix_measures_extra_load_from_the_least_loaded_of_all",
        "the smallest load of all is 3",
    ),
    (
        "extra load taken for load",
        "heaviest = min(replica.load for replica in replicas) + max_extra_load",
        "heaviest = max(max_extra_load, min(replica.load for replica in replicas))",
        "test_route_by_prefix_passes_over_a_replica_with_too_much_extra_load",
        "replica 0 has 2 more to do",
    ),
    (
        "an index among those not too busy",
        "    return max(allowed, key=lambda i: (replicas[i].cached_tokens(prompt), -replicas[i].load, -i))",
        "    best = max(allowed, key=lambda i: (replicas[i].cached_tokens(prompt), -replicas[i].load, -i))\n"
        "    return allowed.index(best)",
        "test_route_by_prefix_returns_the_index_among_all_replicas",
        "count all replicas",
    ),
    (
        "the replica returned",
        "    return max(allowed, key=lambda i: (replicas[i].cached_tokens(prompt), -replicas[i].load, -i))",
        "    return replicas[max(allowed, key=lambda i: (replicas[i].cached_tokens(prompt), -replicas[i].load, -i))]",
        "test_route_by_prefix_goes_where_most_of_the_prompt_is_cached",
        "its index is asked for",
    ),
    (
        "a guard below 0 accepted",
        "    if max_extra_load != math.inf:\n        require_not_negative(max_extra_load=max_extra_load)\n",
        "",
        "test_route_by_prefix_refuses_no_replica_and_a_negative_guard",
        "should name the argument, max_extra_load",
    ),
]

MISTAKES = [
    {"name": name, "week": 7, "file": "paging/routing.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
