"""Week 2, how many requests and tokens fit, how many positions are run, and how many projections that takes."""

REQUESTS = "return max(0, int((memory_bytes - weight_bytes - reserved_bytes) // kv_bytes))"
FITS = "test_max_concurrent_requests_are_what_fits_beside_the_weights_rounded_down"
RESERVE = "test_max_concurrent_requests_leave_the_reserve_alone"
FREE = "free_bytes = memory_bytes * (1 - headroom) - weight_bytes"
CONTEXT = "return max(0, int(free_bytes // (batch_size * kv_bytes_per_token)))"
TENTH = "test_max_context_on_80_gb_with_a_tenth_kept_free"
TOLD = "test_max_context_keeps_free_the_fraction_it_is_told"
WITHOUT = "test_positions_run_without_a_cache_repeat_prompt_and_text"
WITH = "test_positions_run_with_a_cache_are_the_prompt_once_and_then_one_a_pass"
REPEATED = "return sum(n_prompt_tokens + n_written for n_written in range(n_new_tokens))"
ONCE = "return n_prompt_tokens + (n_new_tokens - 1) if n_new_tokens else 0"
PROJECTIONS = "return 2 * n_layers * positions_run(n_prompt_tokens, n_new_tokens, cached)"
EACH = "test_kv_projections_are_two_for_each_position_run"

# (name, old, new, test, what its message says)
_MISTAKES = [
    (
        "weights forgotten beside the requests",
        REQUESTS,
        "return max(0, int((memory_bytes - reserved_bytes) // kv_bytes))",
        FITS,
        "weights forgotten",
    ),
    (
        "requests rounded up",
        REQUESTS,
        "return max(0, math.ceil((memory_bytes - weight_bytes - reserved_bytes) / kv_bytes))",
        FITS,
        "59.6 sequences are 59",
    ),
    (
        "a place kept for nobody",
        REQUESTS,
        "return max(0, math.ceil((memory_bytes - weight_bytes - reserved_bytes) / kv_bytes) - 1)",
        FITS,
        "what fits exactly fits",
    ),
    (
        "reserve forgotten",
        REQUESTS,
        "return max(0, int((memory_bytes - weight_bytes) // kv_bytes))",
        RESERVE,
        "reserve forgotten",
    ),
    (
        "fewer requests than none",
        REQUESTS,
        "return int((memory_bytes - weight_bytes - reserved_bytes) // kv_bytes)",
        RESERVE,
        "leave room for none, not fewer",
    ),
    ("headroom forgotten", FREE, "free_bytes = memory_bytes - weight_bytes", TENTH, "headroom forgotten"),
    (
        "headroom of what the weights leave",
        FREE,
        "free_bytes = (memory_bytes - weight_bytes) * (1 - headroom)",
        TENTH,
        "headroom is a fraction of the whole memory",
    ),
    (
        "fewer tokens than none",
        CONTEXT,
        "return int(free_bytes // (batch_size * kv_bytes_per_token))",
        TENTH,
        "room for 0 tokens, not for fewer",
    ),
    (
        "always a tenth kept free",
        FREE,
        "free_bytes = memory_bytes * 0.9 - weight_bytes",
        TOLD,
        "`headroom` was not used",
    ),
    (
        "a context rounded up",
        CONTEXT,
        "return max(0, math.ceil(free_bytes / (batch_size * kv_bytes_per_token)))",
        TOLD,
        "the next one does not fit",
    ),
    (
        "text so far left out",
        REPEATED,
        "return n_prompt_tokens * n_new_tokens",
        WITHOUT,
        "tokens written so far left out",
    ),
    (
        "last token run without a cache",
        REPEATED,
        "return sum(n_prompt_tokens + n_written + 1 for n_written in range(n_new_tokens))",
        WITHOUT,
        "the last token is written, never run",
    ),
    (
        "a pass too few without a cache",
        REPEATED,
        "return sum(n_prompt_tokens + n_written for n_written in range(n_new_tokens - 1))",
        WITHOUT,
        "one pass too few",
    ),
    ("cached the wrong way round", "    if not cached:\n", "    if cached:\n", WITHOUT, "is `cached` used"),
    ("cached unused", "    if not cached:\n", "    if True:\n", WITH, "is `cached` used"),
    (
        "last token run with a cache",
        ONCE,
        "return n_prompt_tokens + n_new_tokens if n_new_tokens else 0",
        WITH,
        "the last token is written, never run",
    ),
    (
        "a pass too few with a cache",
        ONCE,
        "return n_prompt_tokens + (n_new_tokens - 2) if n_new_tokens else 0",
        WITH,
        "one pass too few",
    ),
    (
        "a prompt run for no token",
        ONCE,
        "return n_prompt_tokens + max(0, n_new_tokens - 1)",
        "test_positions_run_for_no_new_token_are_none",
        "no new token: no pass",
    ),
    (
        "a position taken back for no token",
        ONCE,
        "return n_prompt_tokens + (n_new_tokens - 1)",
        "test_positions_run_for_no_new_token_are_none",
        "no new token: no pass",
    ),
    (
        "layers unused in the projections",
        PROJECTIONS,
        "return 2 * positions_run(n_prompt_tokens, n_new_tokens, cached)",
        "test_kv_projections_are_made_in_every_layer",
        "`n_layers` was not used",
    ),
    (
        "projections always with a cache",
        PROJECTIONS,
        "return 2 * n_layers * positions_run(n_prompt_tokens, n_new_tokens, True)",
        EACH,
        "is `cached` used?",
    ),
    (
        "projections with and without swapped",
        PROJECTIONS,
        "return 2 * n_layers * positions_run(n_prompt_tokens, n_new_tokens, not cached)",
        EACH,
        "the wrong way round",
    ),
    (
        "prompt and new tokens swapped in the projections",
        PROJECTIONS,
        "return 2 * n_layers * positions_run(n_new_tokens, n_prompt_tokens, cached)",
        "test_kv_projections_of_a_prompt_and_one_new_token_are_those_of_the_prompt",
        "prompt and new tokens are swapped",
    ),
    (
        "projections that are a float",
        PROJECTIONS,
        "return 2.0 * n_layers * positions_run(n_prompt_tokens, n_new_tokens, cached)",
        EACH,
        "projections are a whole number",
    ),
]
MISTAKES = [
    {
        "name": f"counts, {name}",
        "week": 2,
        "file": "budget/memory.py",
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, old, new, test, says in _MISTAKES
]
