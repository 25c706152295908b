"""Week 1, how long a pass takes."""

STEP = "return kv_bytes / W + max(weight_bytes / W, 2 * n_params / P)"
PREFILL = "return max(weight_bytes / W, 2 * n_params * n_prompt_tokens / P)"

READS = "test_decode_seconds_per_token_is_the_time_to_read_all_weights_once"
CACHE = "test_decode_seconds_per_token_adds_the_reading_of_the_cache"
SLOW = "test_decode_seconds_per_token_is_arithmetic_on_a_chip_that_reads_faster_than_it_multiplies"
NO_DECODE = "test_decode_seconds_per_token_refuses_what_is_no_pass"
LONG = "test_prefill_seconds_of_a_long_prompt_are_its_arithmetic"
SHORT = "test_prefill_seconds_of_a_short_prompt_are_the_reading_of_the_weights"
NO_PROMPT = "test_prefill_seconds_refuses_what_is_no_prompt"

# (name, old, new, test, what its message says)
_DECODE = [
    ("arithmetic only", STEP, "return kv_bytes / W + 2 * n_params / P", READS, "arithmetic only"),
    (
        "reading and arithmetic added",
        STEP,
        "return kv_bytes / W + weight_bytes / W + 2 * n_params / P",
        READS,
        "only the longer counts",
    ),
    (
        "rates swapped",
        STEP,
        "return kv_bytes / P + max(weight_bytes / P, 2 * n_params / W)",
        "test_decode_seconds_per_token_of_8_bit_weights_is_half",
        "the two rates swapped",
    ),
    (
        "parameters read in place of bytes",
        STEP,
        "return kv_bytes / W + max(n_params / W, 2 * n_params / P)",
        READS,
        "it is bytes that are read",
    ),
    ("bits read", STEP, "return kv_bytes / W + max(8 * weight_bytes / W, 2 * n_params / P)", READS, "taken for bits"),
    (
        "two bytes a parameter",
        STEP,
        "return kv_bytes / W + max(2 * n_params / W, 2 * n_params / P)",
        "test_decode_seconds_per_token_of_8_bit_weights_is_half",
        "weight_bytes ignored",
    ),
    (
        "cache hidden behind the weights",
        STEP,
        "return max(kv_bytes / W, weight_bytes / W, 2 * n_params / P)",
        CACHE,
        "they add up",
    ),
    ("cache left out", STEP, "return max(weight_bytes / W, 2 * n_params / P)", CACHE, "the cache was left out"),
    (
        "the shorter of both",
        STEP,
        "return kv_bytes / W + min(weight_bytes / W, 2 * n_params / P)",
        READS,
        "the shorter of both",
    ),
    (
        "cache hidden behind the arithmetic",
        STEP,
        "return max((kv_bytes + weight_bytes) / W, 2 * n_params / P)",
        SLOW,
        "the cache hides behind the arithmetic",
    ),
    ("reading only", STEP, "return (kv_bytes + weight_bytes) / W", SLOW, "reading only"),
    (
        "factor 2 forgotten",
        STEP,
        "return kv_bytes / W + max(weight_bytes / W, n_params / P)",
        SLOW,
        "factor 2 forgotten",
    ),
    (
        "bytes multiplied",
        STEP,
        "return kv_bytes / W + max(weight_bytes / W, 2 * weight_bytes / P)",
        SLOW,
        "counted on bytes",
    ),
    (
        "a negative cache taken",
        "    require_not_negative(kv_bytes=kv_bytes)\n    W, P",
        "    W, P",
        NO_DECODE,
        "impossible because of kv_bytes",
    ),
    (
        "weights without bytes taken",
        "require_positive(n_params=n_params, weight_bytes=weight_bytes)\n    require_not_negative(kv_bytes=kv_bytes)\n"
        "    W, P",
        "require_not_negative(n_params=n_params, weight_bytes=weight_bytes, kv_bytes=kv_bytes)\n    W, P",
        NO_DECODE,
        "impossible because of",
    ),
]
_PREFILL = [
    (
        "factor 2 forgotten",
        PREFILL,
        "return max(weight_bytes / W, n_params * n_prompt_tokens / P)",
        LONG,
        "factor 2 forgotten",
    ),
    (
        "weights read once per position",
        PREFILL,
        "return max(weight_bytes * n_prompt_tokens / W, 2 * n_params * n_prompt_tokens / P)",
        LONG,
        "weights read once per position",
    ),
    (
        "reading and arithmetic added",
        PREFILL,
        "return weight_bytes / W + 2 * n_params * n_prompt_tokens / P",
        LONG,
        "only the longer counts",
    ),
    (
        "the shorter time",
        PREFILL,
        "return min(weight_bytes / W, 2 * n_params * n_prompt_tokens / P)",
        LONG,
        "does the longer count",
    ),
    ("one position", PREFILL, "return max(weight_bytes / W, 2 * n_params / P)", LONG, "reading only"),
    (
        "the last position left out",
        PREFILL,
        "return max(weight_bytes / W, 2 * n_params * (n_prompt_tokens - 1) / P)",
        LONG,
        "one position too few",
    ),
    ("arithmetic only", PREFILL, "return 2 * n_params * n_prompt_tokens / P", SHORT, "the weights must be read"),
    (
        "two bytes a parameter",
        PREFILL,
        "return max(2 * n_params / W, 2 * n_params * n_prompt_tokens / P)",
        SHORT,
        "weight_bytes ignored",
    ),
    (
        "no prompt taken",
        "    require_count(1, n_prompt_tokens=n_prompt_tokens)\n",
        "",
        NO_PROMPT,
        "impossible because of n_prompt_tokens",
    ),
    (
        "weights without bytes taken",
        "require_positive(n_params=n_params, weight_bytes=weight_bytes)\n    W, P",
        "require_positive(n_params=n_params)\n    W, P",
        NO_PROMPT,
        "impossible because of weight_bytes",
    ),
]
_OF = {"decode": _DECODE, "prefill": _PREFILL}
MISTAKES = [
    {"name": f"{of}: {name}", "week": 1, "file": "budget/roofline.py"}
    | {"old": old, "new": new, "test": test, "says": says}
    for of, mistakes in _OF.items()
    for name, old, new, test, says in mistakes
]
