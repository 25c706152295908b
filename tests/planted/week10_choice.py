"""Week 10, which batch to choose."""

CRITICAL = "return int(weight_bits / 8 * hardware.peak_flops_per_second // (2 * hardware.bandwidth_bytes_per_second))"
CROSSOVER = "return math.ceil(weight_bytes / kv_bytes)"
SEARCH = "decode_step_time(size, n_params, weight_bytes, kv_bytes, hardware)"
ENDS = "range(1, int(tpot_seconds * hardware.peak_flops_per_second / (2 * n_params)) + 2)"
FIND = "    return bisect_right(\n        batch_sizes, tpot_seconds, key=lambda size: "
OF_H100 = "test_critical_batch_of_an_h100_is_295_at_16_bits"
OUTWEIGH = "test_crossover_batch_is_where_the_caches_outweigh_the_weights"
NO_WEIGHT = "test_crossover_batch_refuses_what_weighs_nothing"
TEN_MS = "test_max_batch_for_tpot_of_10_ms_is_16"
NO_GOAL = "test_max_batch_for_tpot_refuses_what_is_no_goal"
TOGETHER = "test_max_batch_for_tpot_counts_arithmetic_and_caches_together"
WITHOUT = "test_max_batch_for_tpot_without_caches_is_limited_by_arithmetic"

# (name, old, new, test, what its message says)
_MISTAKES = [
    (
        "critical batch: factor 2 forgotten",
        CRITICAL,
        "return int(weight_bits / 8 * hardware.peak_flops_per_second // hardware.bandwidth_bytes_per_second)",
        OF_H100,
        "factor 2 forgotten",
    ),
    (
        "critical batch: bits of the weights ignored",
        CRITICAL,
        "return int(hardware.peak_flops_per_second // hardware.bandwidth_bytes_per_second)",
        OF_H100,
        "weight_bits ignored",
    ),
    (
        "critical batch: rounded up",
        CRITICAL,
        "return math.ceil(weight_bits / 16 * hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second)",
        OF_H100,
        "rounded up",
    ),
    (
        "critical batch: rounded to the nearest",
        CRITICAL,
        "return round(weight_bits / 16 * hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second)",
        OF_H100,
        "rounded to the nearest",
    ),
    (
        "critical batch: bits for bytes",
        CRITICAL,
        CRITICAL.replace("weight_bits / 8", "weight_bits"),
        OF_H100,
        "bits taken for bytes",
    ),
    (
        "critical batch: upside down",
        CRITICAL,
        "return int(2 * hardware.bandwidth_bytes_per_second // (weight_bits / 8 * hardware.peak_flops_per_second))",
        OF_H100,
        "upside down",
    ),
    (
        "critical batch: fewer bits, larger batch",
        CRITICAL,
        "return int(16 / weight_bits * hardware.peak_flops_per_second // hardware.bandwidth_bytes_per_second)",
        OF_H100,
        "the wrong way round",
    ),
    (
        "critical batch: equally long left out",
        CRITICAL,
        "return math.ceil(weight_bits / 16 * hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second) - 1",
        "test_critical_batch_counts_the_batch_at_which_both_take_equally_long",
        "both take equally long",
    ),
    (
        "critical batch: at least 1",
        CRITICAL,
        CRITICAL.replace("return int(", "return max(1, int(") + ")",
        "test_critical_batch_may_be_none_at_all",
        "already multiplies longer",
    ),
    (
        "critical batch: a float",
        CRITICAL,
        CRITICAL.replace("return int(", "return ("),
        "test_critical_batch_is_a_whole_number",
        "is a float",
    ),
    (
        "critical batch: weights without bits",
        "    require_positive(weight_bits=weight_bits)\n",
        "",
        "test_critical_batch_refuses_weights_without_bits",
        "impossible because of weight_bits",
    ),
    (
        "crossover: rounded down",
        CROSSOVER,
        "return int(weight_bytes / kv_bytes)",
        OUTWEIGH,
        "the weights still weigh more",
    ),
    (
        "crossover: rounded to the nearest",
        CROSSOVER,
        "return round(weight_bytes / kv_bytes)",
        OUTWEIGH,
        "rounded to the nearest",
    ),
    ("crossover: not rounded", CROSSOVER, "return weight_bytes / kv_bytes", OUTWEIGH, "not rounded"),
    ("crossover: upside down", CROSSOVER, "return math.ceil(kv_bytes / weight_bytes)", OUTWEIGH, "upside down"),
    ("crossover: one too many", CROSSOVER, CROSSOVER + " + 1", OUTWEIGH, "one too many"),
    (
        "crossover: equal weight left out",
        CROSSOVER,
        "return int(weight_bytes / kv_bytes) + 1",
        "test_crossover_batch_of_exactly_equal_weight_counts",
        "with exactly equal weight",
    ),
    (
        "crossover: a float",
        CROSSOVER,
        "return float(math.ceil(weight_bytes / kv_bytes))",
        "test_crossover_batch_is_a_whole_number",
        "is a float",
    ),
    (
        "crossover: caches without bytes",
        "require_positive(weight_bytes=weight_bytes, kv_bytes=kv_bytes)",
        "require_positive(weight_bytes=weight_bytes)",
        NO_WEIGHT,
        "impossible because of kv_bytes",
    ),
    (
        "crossover: weights without bytes",
        "require_positive(weight_bytes=weight_bytes, kv_bytes=kv_bytes)",
        "require_positive(kv_bytes=kv_bytes)",
        NO_WEIGHT,
        "impossible because of weight_bytes",
    ),
    (
        "largest batch: one too many",
        "    return bisect_right(\n",
        "    return 1 + bisect_right(\n",
        TEN_MS,
        "with 17 the step takes 10.24 ms",
    ),
    (
        "largest batch: one too few",
        "    return bisect_right(\n",
        "    return -1 + bisect_right(\n",
        TEN_MS,
        "with 16 the step takes 9.92 ms",
    ),
    ("largest batch: caches left out", SEARCH, SEARCH.replace("kv_bytes", "0"), TEN_MS, "caches left out"),
    ("largest batch: weights left out", SEARCH, SEARCH.replace("weight_bytes", "1"), TEN_MS, "weights left out"),
    (
        "largest batch: arithmetic left out",
        f"{ENDS}\n{FIND}{SEARCH}",
        f"range(1, 10**6)\n{FIND}{SEARCH.replace('n_params', '1')}",
        WITHOUT,
        "the arithmetic is left out",
    ),
    (
        "largest batch: caches behind the arithmetic",
        SEARCH,
        f"max({SEARCH.replace('n_params', '1')}, {SEARCH.replace('kv_bytes', '0')})",
        TOGETHER,
        "hidden behind it",
    ),
    (
        "largest batch: factor 2 forgotten",
        f"{ENDS}\n{FIND}{SEARCH}",
        f"{ENDS.replace('2 * n', 'n')}\n{FIND}{SEARCH.replace('n_params', 'n_params / 2')}",
        WITHOUT,
        "factor 2 forgotten",
    ),
    (
        "largest batch: a search that ends at 256",
        ENDS,
        "range(1, 257)",
        WITHOUT,
        "did the search end too early",
    ),
    (
        "largest batch: exactly the goal is too long",
        "    return bisect_right(\n",
        "    from bisect import bisect_left\n\n    return bisect_left(\n",
        "test_max_batch_for_tpot_takes_a_step_of_exactly_that_long",
        "of exactly tpot_seconds is allowed",
    ),
    (
        "largest batch: at least 1",
        "    return bisect_right(\n        batch_sizes,",
        "    return bisect_right(\n        batch_sizes, lo=1, x=",
        "test_max_batch_for_tpot_is_0_where_not_even_one_sequence_is_fast_enough",
        "so the answer is 0",
    ),
    (
        "largest batch: a goal of no time",
        "require_positive(tpot_seconds=tpot_seconds, n_params=n_params)",
        "require_positive(n_params=n_params)",
        NO_GOAL,
        "impossible because of tpot_seconds",
    ),
    (
        "largest batch: negative caches",
        SEARCH,
        SEARCH.replace("kv_bytes", "max(0, kv_bytes)"),
        NO_GOAL,
        "impossible because of kv_bytes",
    ),
]
MISTAKES = [
    {"name": f"price, {name}", "week": 10, "file": "budget/decode_batch.py"}
    | {"old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _MISTAKES
]
