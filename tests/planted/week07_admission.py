"""Week 7, what a newcomer takes from the prefix cache."""

_SPARED = "test_begin_with_prefix_runs_nothing_again_that_the_cache_holds"
_GIVEN_BACK = "test_begin_with_prefix_gives_everything_back_where_the_rest_has_no_room"

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "what was found not adopted",
        "    request.table.adopt(blocks)\n",
        "",
        _SPARED,
        "are in the prefix cache",
    ),
    (
        "blocks known to the cache not counted",
        "request.n_computed, request.n_remembered = request.table.length, len(blocks)",
        "request.n_computed = request.table.length",
        _SPARED,
        "n_remembered counts the blocks",
    ),
    (
        "a whole prompt found and nothing left to run",
        "    blocks = prefix.match(request.tokens, limit=len(request.tokens) - 1)\n    request.table",
        "    blocks = prefix.match(request.tokens, limit=len(request.tokens))\n    request.table",
        "test_begin_with_prefix_leaves_the_last_token_to_run",
        "nothing is left to run",
    ),
    (
        "what the prefix cache spared not counted",
        "    request.n_prefix_tokens += request.n_computed\n",
        "",
        "test_begin_with_prefix_counts_what_the_cache_has_spared",
        "to its n_prefix_tokens",
    ),
    (
        "what the prefix cache spared counted for one admission only",
        "    request.n_prefix_tokens += request.n_computed\n",
        "    request.n_prefix_tokens = request.n_computed\n",
        "test_begin_with_prefix_counts_what_the_cache_has_spared",
        "to its n_prefix_tokens",
    ),
    (
        "one that waits keeps its prefix",
        "        request.table.release()\n        request.n_computed = request.n_remembered = 0\n",
        "        pass\n",
        _GIVEN_BACK,
        "one that waits holds nothing",
    ),
    (
        "blocks given back and still counted",
        "        request.n_computed = request.n_remembered = 0\n        return False",
        "        return False",
        _GIVEN_BACK,
        "nothing of it is in the cache",
    ),
    (
        "blocks of one's own taken for room",
        "    missing = max(0, request.table.blocks_needed(request.n_pending) - prefix.blocks.n_free)\n"
        "    if missing > prefix.n_evictable:",
        "    missing = max(0, request.table.blocks_needed(request.n_pending) - prefix.blocks.n_free)\n"
        "    if missing > prefix.n_evictable + len(blocks):",
        _GIVEN_BACK,
        "ask n_evictable after match",
    ),
    (
        "the cache evicted in vain",
        "    if missing > prefix.n_evictable:\n",
        "    if missing > prefix.n_evictable:\n        prefix.evict(prefix.n_evictable)\n",
        "test_begin_with_prefix_evicts_nothing_if_that_is_not_enough",
        "lost in vain",
    ),
    (
        "more evicted than needed",
        "    prefix.evict(missing)\n",
        "    prefix.evict(request.table.blocks_needed(request.n_pending))\n",
        "test_begin_with_prefix_evicts_what_is_missing_and_no_more",
        "keep what can be kept",
    ),
    (
        "what only the cache holds is no room",
        "    if missing > prefix.n_evictable:\n",
        "    if missing > 0:\n",
        "test_begin_with_prefix_evicts_what_is_missing_and_no_more",
        "is room too",
    ),
    (
        "one block of the room left over",
        "    if missing > prefix.n_evictable:\n",
        "    if missing and missing >= prefix.n_evictable:\n",
        "test_begin_with_prefix_fills_the_room_to_the_last_block",
        "that is enough",
    ),
    (
        "room for one token only",
        "    missing = max(0, request.table.blocks_needed(request.n_pending) - prefix.blocks.n_free)\n",
        "    missing = max(0, request.table.blocks_needed(1) - prefix.blocks.n_free)\n",
        "test_begin_with_prefix_evicts_what_is_missing_and_no_more",
        "evict for all that is pending",
    ),
    (
        "what was spared counted although it waits",
        "    if missing > prefix.n_evictable:\n"
        "        request.table.release()\n"
        "        request.n_computed = request.n_remembered = 0\n"
        "        return False\n"
        "    prefix.evict(missing)\n"
        "    request.n_prefix_tokens += request.n_computed\n",
        "    request.n_prefix_tokens += request.n_computed\n"
        "    if missing > prefix.n_evictable:\n"
        "        request.table.release()\n"
        "        request.n_computed = request.n_remembered = 0\n"
        "        return False\n"
        "    prefix.evict(missing)\n",
        _GIVEN_BACK,
        "the cache has spared it nothing",
    ),
    (
        "looked up once to see and once to take",
        "    blocks = prefix.match(request.tokens, limit=len(request.tokens) - 1)\n    request.table",
        "    if prefix.match(request.tokens, limit=len(request.tokens) - 1):\n"
        "        pass\n"
        "    blocks = prefix.match(request.tokens, limit=len(request.tokens) - 1)\n"
        "    request.table",
        "test_begin_with_prefix_leaves_the_last_token_to_run",
        "looked up more than once",
    ),
    (
        "nothing found taken for no room",
        "    request.table.adopt(blocks)\n",
        "    if not blocks:\n        return False\n    request.table.adopt(blocks)\n",
        "test_begin_with_prefix_of_an_unknown_text_begins_with_nothing",
        "nothing found is no reason to wait",
    ),
]

MISTAKES = [
    {"name": name, "week": 7, "file": "engine/admission.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
