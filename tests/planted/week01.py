"""Week 1, the roofline: what bounds a pass."""

FLOPS = "return 2 * n_params * n_tokens\n"
INTENSITY = "return 2 * n_params * n_tokens / (weight_bytes + kv_bytes)"
RIDGE = "return hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second"
BOUND = 'return "memory" if intensity < ridge_point(hardware) else "compute"'

COUNTS = "test_matmul_flops_counts_a_multiplication_and_an_addition_for_each_parameter_and_position"
NO_FLOPS = "test_matmul_flops_refuses_what_is_no_pass"
DECODE = "test_arithmetic_intensity_is_1_for_decode_and_1000_for_a_prefill_of_1000_tokens"
CACHES = "test_arithmetic_intensity_of_a_batch_falls_with_the_bytes_of_its_caches"
NO_PASS = "test_arithmetic_intensity_refuses_what_is_no_pass"
QUOTIENT = "test_ridge_point_is_operations_per_second_over_bytes_per_second"
BOTH = "test_bottleneck_is_memory_for_decode_and_compute_for_a_long_prefill"

# (name, old, new, test, what its message says)
_MISTAKES = [
    ("factor 2 forgotten in a pass", FLOPS, "return n_params * n_tokens\n", COUNTS, "factor 2 forgotten"),
    ("a pass of one position", FLOPS, "return 2 * n_params\n", COUNTS, "a single position was counted"),
    ("training's 6 operations", FLOPS, "return 6 * n_params * n_tokens\n", COUNTS, "training's"),
    (
        "a pass without its first position",
        FLOPS,
        "return 2 * n_params * (n_tokens - 1)\n",
        COUNTS,
        "one position too few",
    ),
    ("a pass quadratic in positions", FLOPS, "return 2 * n_params * n_tokens**2\n", COUNTS, "as in attention"),
    ("parameters and positions added", FLOPS, "return 2 * n_params + n_tokens\n", COUNTS, "so they multiply"),
    (
        "no position refused",
        "require_count(0, n_tokens=n_tokens)",
        "require_count(1, n_tokens=n_tokens)",
        "test_matmul_flops_of_no_position_are_none",
        "no position is no mistake",
    ),
    (
        "fewer positions than none",
        "require_count(0, n_tokens=n_tokens)",
        "require_count(-9, n_tokens=n_tokens)",
        NO_FLOPS,
        "impossible because of n_tokens",
    ),
    (
        "half a position",
        "require_count(0, n_tokens=n_tokens)",
        "require_not_negative(n_tokens=n_tokens)",
        "test_matmul_flops_refuses_half_a_position",
        "impossible because of n_tokens",
    ),
    (
        "a pass without parameters",
        "require_positive(n_params=n_params)\n    require_count(0",
        "require_count(0",
        NO_FLOPS,
        "impossible because of n_params",
    ),
    (
        "factor 2 forgotten in the intensity",
        INTENSITY,
        "return n_params * n_tokens / (weight_bytes + kv_bytes)",
        DECODE,
        "factor 2 forgotten",
    ),
    (
        "weights counted once per position",
        INTENSITY,
        "return 2 * n_params * n_tokens / (weight_bytes * n_tokens + kv_bytes)",
        DECODE,
        "weights counted once per position",
    ),
    (
        "intensity of one position",
        INTENSITY,
        "return 2 * n_params / (weight_bytes + kv_bytes)",
        DECODE,
        "n_tokens ignored",
    ),
    (
        "intensity upside down",
        INTENSITY,
        "return (weight_bytes + kv_bytes) / (2 * n_params * n_tokens)",
        DECODE,
        "upside down",
    ),
    (
        "cache left out of the intensity",
        INTENSITY,
        "return 2 * n_params * n_tokens / weight_bytes",
        CACHES,
        "cache's bytes are left out",
    ),
    (
        "the cache of all counted for each",
        INTENSITY,
        "return 2 * n_params * n_tokens / (weight_bytes + n_tokens * kv_bytes)",
        CACHES,
        "of all sequences together already",
    ),
    (
        "the cache outside the quotient",
        INTENSITY,
        "return 2 * n_params * n_tokens / weight_bytes + kv_bytes",
        CACHES,
        "in brackets",
    ),
    (
        "two bytes a parameter in the intensity",
        INTENSITY,
        "return 2 * n_params * n_tokens / (2 * n_params + kv_bytes)",
        "test_arithmetic_intensity_of_8_bit_weights_is_twice_as_high",
        "weight_bytes ignored",
    ),
    (
        "an intensity of weights without bytes",
        "require_positive(n_params=n_params, weight_bytes=weight_bytes)\n    require_not_negative(kv_bytes=kv_bytes)\n"
        "    return",
        "require_positive(n_params=n_params)\n    require_not_negative(kv_bytes=kv_bytes)\n    return",
        NO_PASS,
        "impossible because of weight_bytes",
    ),
    (
        "an intensity with a negative cache",
        "    require_not_negative(kv_bytes=kv_bytes)\n    return",
        "    return",
        NO_PASS,
        "impossible because of kv_bytes",
    ),
    (
        "ridge point upside down",
        RIDGE,
        "return hardware.bandwidth_bytes_per_second / hardware.peak_flops_per_second",
        QUOTIENT,
        "upside down",
    ),
    (
        "ridge point twice as high",
        RIDGE,
        "return 2 * hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second",
        QUOTIENT,
        "a factor 2 too many",
    ),
    (
        "ridge point half as high",
        RIDGE,
        "return hardware.peak_flops_per_second / (2 * hardware.bandwidth_bytes_per_second)",
        QUOTIENT,
        "half of it",
    ),
    (
        "ridge point rounded down",
        RIDGE,
        "return hardware.peak_flops_per_second // hardware.bandwidth_bytes_per_second",
        QUOTIENT,
        "rounded down",
    ),
    (
        "ridge point from the memory's size",
        RIDGE,
        "return hardware.peak_flops_per_second / hardware.memory_bytes",
        QUOTIENT,
        "size was taken for its bandwidth",
    ),
    (
        "ridge point in bits",
        RIDGE,
        "return hardware.peak_flops_per_second / (8 * hardware.bandwidth_bytes_per_second)",
        QUOTIENT,
        "bits taken for bytes",
    ),
    ("ridge point of an H100", RIDGE, "return 989e12 / 3.35e12", QUOTIENT, "H100's own figures"),
    (
        "bottleneck the wrong way round",
        BOUND,
        'return "compute" if intensity < ridge_point(hardware) else "memory"',
        BOTH,
        "the wrong way round",
    ),
    (
        "the ridge point itself counted as memory",
        "if intensity < ridge_point(hardware)",
        "if intensity <= ridge_point(hardware)",
        "test_bottleneck_says_compute_exactly_at_the_ridge_point",
        "at the ridge point itself",
    ),
    (
        "bottleneck against bytes an operation",
        "if intensity < ridge_point(hardware)",
        "if intensity < 1 / ridge_point(hardware)",
        BOTH,
        "intensity 1 is far below",
    ),
    (
        "memory below an intensity of 2 only",
        "if intensity < ridge_point(hardware)",
        "if intensity < 2",
        BOTH,
        "an intensity of 32 is above 1",
    ),
    (
        "every chip an H100",
        "if intensity < ridge_point(hardware)",
        "if intensity < 989 / 3.35",
        "test_bottleneck_asks_the_chip_that_it_is_given",
        "each chip has its own",
    ),
    ("bottleneck as a truth value", BOUND, "return intensity < ridge_point(hardware)", BOTH, 'or "compute", not True'),
    (
        "a pass that only reads refused",
        "require_not_negative(intensity=intensity)",
        "require_positive(intensity=intensity)",
        "test_bottleneck_of_no_operation_at_all_is_memory",
        "an intensity of 0 is allowed",
    ),
    (
        "any intensity taken",
        "    require_not_negative(intensity=intensity)\n",
        "",
        "test_bottleneck_refuses_what_is_no_intensity",
        "impossible because of intensity",
    ),
]
MISTAKES = [
    {"name": f"roofline, {name}", "week": 1, "file": "budget/roofline.py"}
    | {"old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _MISTAKES
]
