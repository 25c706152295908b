"""Week 2, the arithmetic of the cache's size once more: what people leave out, round too early or do not use."""

PER_TOKEN = "return math.ceil(shape.n_layers * numbers * kv_bits / 8)"
LLAMA = "test_kv_bytes_per_token_of_llama3_8b_are_128_kib"
FEWER = "test_kv_bytes_per_token_at_fewer_bits_are_rounded_up"
CACHES = "return batch_size * n_tokens * kv_bytes_per_token(shape, kv_bits)"
MULTIPLY = "test_kv_cache_bytes_multiply_tokens_and_sequences"
WEIGHTS = "return math.ceil(n_params * weight_bits / 8)"
TIMES = "test_weight_bytes_are_parameters_times_bits_in_bytes"
FRACTIONS = "test_weight_bytes_take_fractions_of_bits_and_round_up"

# (name, old, new, test, what its message says)
_PER_TOKEN = [
    ("layers forgotten", "return math.ceil(numbers * kv_bits / 8)", LLAMA, "layers forgotten"),
    ("bits taken for bytes", "return math.ceil(shape.n_layers * numbers * kv_bits)", LLAMA, "bits taken for bytes"),
    ("a float", "return shape.n_layers * numbers * kv_bits / 8", LLAMA, "bytes are a whole number"),
    ("kv_bits unused", "return math.ceil(shape.n_layers * numbers * 2)", FEWER, "`kv_bits` was not used"),
    ("rounded down", "return int(shape.n_layers * numbers * kv_bits / 8)", FEWER, "a started byte is a byte"),
    (
        "rounded in every layer",
        "return shape.n_layers * math.ceil(numbers * kv_bits / 8)",
        FEWER,
        "rounded up in every layer",
    ),
]
_CACHES = [
    ("tokens forgotten", "return batch_size * kv_bytes_per_token(shape, kv_bits)", "tokens forgotten"),
    (
        "kv_bits unused",
        "return batch_size * n_tokens * kv_bytes_per_token(shape)",
        "`kv_bits` was not used",
    ),
    (
        "no token counted as one",
        "return batch_size * max(1, n_tokens) * kv_bytes_per_token(shape, kv_bits)",
        "no token takes no byte",
    ),
    ("a float", "return float(batch_size * n_tokens * kv_bytes_per_token(shape, kv_bits))", "bytes are a whole number"),
]
_WEIGHTS = [
    ("bits taken for bytes", "return math.ceil(n_params * weight_bits)", TIMES, "bits taken for bytes"),
    ("weight_bits unused", "return math.ceil(n_params * 2)", TIMES, "`weight_bits` was not used"),
    ("each weight in whole bytes", "return math.ceil(n_params * math.ceil(weight_bits / 8))", TIMES, "two of 4 bits"),
    ("bits divided first", "return math.ceil(n_params * (weight_bits // 8))", TIMES, "half a byte was rounded down"),
    ("a float", "return n_params * weight_bits / 8", TIMES, "bytes are a whole number"),
    ("rounded down", "return int(n_params * weight_bits // 8)", FRACTIONS, "a started byte is a byte"),
    ("rounded to the nearest", "return round(n_params * weight_bits / 8)", FRACTIONS, "a started byte is a byte"),
    (
        "fraction of a bit cut off",
        "return math.ceil(n_params * int(weight_bits) / 8)",
        FRACTIONS,
        "the fraction of `weight_bits` was cut off",
    ),
]
# (name, old, test, the argument blamed)
_REFUSALS = [
    (
        "bits of a cache not checked",
        "    require_positive(kv_bits=kv_bits)\n",
        "test_kv_bytes_per_token_refuse_impossible_bits",
        "kv_bits",
    ),
    (
        "weights not checked",
        "    require_positive(n_params=n_params, weight_bits=weight_bits)\n",
        "test_weight_bytes_refuse_impossible_sizes",
        "n_params",
    ),
    (
        "tokens of a cache not checked",
        "    require_count(0, n_tokens=n_tokens)\n",
        "test_kv_cache_bytes_refuse_impossible_counts_and_bits",
        "n_tokens",
    ),
    (
        "sequences of a cache not checked",
        "    require_count(0, n_tokens=n_tokens)\n    require_count(1, batch_size=batch_size)\n",
        "test_kv_cache_bytes_refuse_impossible_counts_and_bits",
        "batch_size",
    ),
    (
        "sizes of requests not checked",
        "    require_positive(memory_bytes=memory_bytes, weight_bytes=weight_bytes, kv_bytes=kv_bytes)\n",
        "test_max_concurrent_requests_refuse_impossible_sizes",
        "memory_bytes",
    ),
    (
        "reserve not checked",
        "    require_not_negative(reserved_bytes=reserved_bytes)\n",
        "test_max_concurrent_requests_refuse_impossible_sizes",
        "reserved_bytes",
    ),
    (
        "headroom not checked",
        "    require_not_negative(headroom=headroom)\n    if headroom >= 1:\n",
        "test_max_context_refuses_impossible_sizes_and_fractions",
        "headroom",
    ),
    (
        "a headroom of everything allowed",
        "    if headroom >= 1:\n",
        "test_max_context_refuses_impossible_sizes_and_fractions",
        "headroom",
    ),
    (
        "sizes of a context not checked",
        "    require_positive(memory_bytes=memory_bytes, weight_bytes=weight_bytes, "
        "kv_bytes_per_token=kv_bytes_per_token)\n",
        "test_max_context_refuses_impossible_sizes_and_fractions",
        "memory_bytes",
    ),
    (
        "counts of positions not checked",
        "    require_count(1, n_prompt_tokens=n_prompt_tokens)\n    require_count(0, n_new_tokens=n_new_tokens)\n",
        "test_positions_run_refuse_impossible_counts",
        "n_prompt_tokens",
    ),
    (
        "layers not checked",
        "    require_count(1, n_layers=n_layers)\n",
        "test_kv_projections_refuse_impossible_counts",
        "n_layers",
    ),
]
_MISTAKES = [
    *[(f"a token's cache, {name}", PER_TOKEN, new, test, says) for name, new, test, says in _PER_TOKEN],
    *[(f"the caches, {name}", CACHES, new, MULTIPLY, says) for name, new, says in _CACHES],
    *[(f"the weights, {name}", WEIGHTS, new, test, says) for name, new, test, says in _WEIGHTS],
    *[
        (name, old, "    if False:\n" if old.endswith("if headroom >= 1:\n") else "", test, f"because of {blamed}")
        for name, old, test, blamed in _REFUSALS
    ],
]
MISTAKES = [
    {
        "name": f"sizes, {name}",
        "week": 2,
        "file": "budget/memory.py",
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, old, new, test, says in _MISTAKES
]
