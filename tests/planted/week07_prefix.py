"""Week 7, how much of a prompt need not be run."""

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "tokens behind the first difference reused",
        "        if old != new:\n            break\n        n_equal += 1",
        "        n_equal += old == new",
        "test_reusable_prefix_tokens_end_at_the_first_token_that_differs",
        "tokens behind the first difference were counted",
    ),
    (
        "the whole prompt reused",
        "in zip(cached, prompt[:-1], strict=False):",
        "in zip(cached, prompt, strict=False):",
        "test_reusable_prefix_tokens_leave_one_position_to_run",
        "one position must be run",
    ),
    (
        "reuse at any length, whatever the granularity",
        "return n_equal - n_equal % granularity",
        "return n_equal",
        "test_reusable_prefix_tokens_are_whole_multiples_of_the_granularity",
        "granularity ignored",
    ),
    (
        "reuse rounded up to the granularity",
        "return n_equal - n_equal % granularity",
        "return -(-n_equal // granularity) * granularity",
        "test_reusable_prefix_tokens_are_whole_multiples_of_the_granularity",
        "granularity rounded up",
    ),
    (
        "a text read beyond its end",
        "    n_equal = 0\n"
        "    for old, new in zip(cached, prompt[:-1], strict=False):\n"
        "        if old != new:\n"
        "            break\n"
        "        n_equal += 1\n"
        "    return n_equal - n_equal % granularity\n",
        "    n_equal = 0\n"
        "    while n_equal < len(prompt) - 1 and cached[n_equal] == prompt[n_equal]:\n"
        "        n_equal += 1\n"
        "    return n_equal - n_equal % granularity\n",
        "test_reusable_prefix_tokens_of_nothing_are_none",
        "either text can be the shorter one",
    ),
    (
        "less than nothing of an empty prompt",
        "    n_equal = 0\n"
        "    for old, new in zip(cached, prompt[:-1], strict=False):\n"
        "        if old != new:\n"
        "            break\n"
        "        n_equal += 1\n"
        "    return n_equal - n_equal % granularity\n",
        "    n_equal = 0\n"
        "    for old, new in zip(cached, prompt, strict=False):\n"
        "        if old != new:\n"
        "            break\n"
        "        n_equal += 1\n"
        "    n_equal = min(n_equal, len(prompt) - 1)\n"
        "    return n_equal - n_equal % granularity\n",
        "test_reusable_prefix_tokens_of_nothing_are_none",
        "a prompt of no token cannot leave one",
    ),
    (
        "the last cached token not reused",
        "zip(cached, prompt[:-1], strict=False)",
        "zip(cached[:-1], prompt[:-1], strict=False)",
        "test_reusable_prefix_tokens_leave_one_position_to_run",
        "all 4 cached tokens can be reused",
    ),
    (
        "rounded before one position is left",
        "    n_equal = 0\n"
        "    for old, new in zip(cached, prompt[:-1], strict=False):\n"
        "        if old != new:\n"
        "            break\n"
        "        n_equal += 1\n"
        "    return n_equal - n_equal % granularity\n",
        "    n_equal = 0\n"
        "    for old, new in zip(cached, prompt, strict=False):\n"
        "        if old != new:\n"
        "            break\n"
        "        n_equal += 1\n"
        "    return max(0, min(n_equal - n_equal % granularity, len(prompt) - 1))\n",
        "test_reusable_prefix_tokens_are_whole_multiples_of_the_granularity",
        "7 is no multiple of 4",
    ),
    (
        "a granularity of nothing divided by",
        "    require_count(1, granularity=granularity)\n    n_equal",
        "    n_equal",
        "test_reusable_prefix_tokens_refuse_a_granularity_of_nothing",
        "a granularity of 0 was divided by",
    ),
    (
        "any granularity but 0",
        "    require_count(1, granularity=granularity)\n    n_equal",
        '    if not granularity:\n        raise ValueError("granularity is 0")\n    n_equal',
        "test_reusable_prefix_tokens_refuse_a_granularity_of_nothing",
        "there are no such units",
    ),
]

MISTAKES = [
    {"name": name, "week": 7, "file": "paging/radix_cache.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
