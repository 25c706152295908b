"""Week 1, the roofline and the waiting time of a request."""

INTENSITY = "return 2 * n_params * n_tokens / (weight_bytes + kv_bytes)"
DECODE = "return kv_bytes / W + max(weight_bytes / W, 2 * n_params / P)"
PREFILL = "return max(weight_bytes / W, 2 * n_params * n_prompt_tokens / P)"
ATTENTION = "return 4 * n_layers * n_heads * head_dim * mean_context / (2 * n_params)"
WAITING = "return ttft_seconds + (n_output_tokens - 1) * tpot_seconds"

# (name, old, new, test, what its message says)
_MISTAKES = [
    (
        "factor 2 forgotten in a pass",
        "return 2 * n_params * n_tokens\n",
        "return n_params * n_tokens\n",
        "test_matmul_flops_counts_a_multiplication_and_an_addition_for_each_parameter_and_position",
        "factor 2 forgotten",
    ),
    (
        "factor 2 forgotten in the intensity",
        INTENSITY,
        "return n_params * n_tokens / (weight_bytes + kv_bytes)",
        "test_arithmetic_intensity_is_1_for_decode_and_1000_for_a_prefill_of_1000_tokens",
        "factor 2 forgotten",
    ),
    (
        "weights counted once per position",
        INTENSITY,
        "return 2 * n_params * n_tokens / (weight_bytes * n_tokens + kv_bytes)",
        "test_arithmetic_intensity_is_1_for_decode_and_1000_for_a_prefill_of_1000_tokens",
        "weights counted once per position",
    ),
    (
        "cache left out of the intensity",
        INTENSITY,
        "return 2 * n_params * n_tokens / weight_bytes",
        "test_arithmetic_intensity_of_a_batch_falls_with_the_bytes_of_its_caches",
        "cache's bytes are left out",
    ),
    (
        "ridge point upside down",
        "return hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second",
        "return hardware.bandwidth_bytes_per_second / hardware.peak_flops_per_second",
        "test_ridge_point_is_operations_per_second_over_bytes_per_second",
        "upside down",
    ),
    (
        "bottleneck the wrong way round",
        'return "memory" if intensity < ridge_point(hardware) else "compute"',
        'return "compute" if intensity < ridge_point(hardware) else "memory"',
        "test_bottleneck_is_memory_for_decode_and_compute_for_a_long_prefill",
        "the chip waits for bytes",
    ),
    (
        "the ridge point itself counted as memory",
        "if intensity < ridge_point(hardware)",
        "if intensity <= ridge_point(hardware)",
        "test_bottleneck_says_compute_exactly_at_the_ridge_point",
        "at the ridge point itself",
    ),
    (
        "decode: arithmetic only",
        DECODE,
        "return kv_bytes / W + 2 * n_params / P",
        "test_decode_seconds_per_token_is_the_time_to_read_all_weights_once",
        "arithmetic only",
    ),
    (
        "decode: reading and arithmetic added",
        DECODE,
        "return kv_bytes / W + weight_bytes / W + 2 * n_params / P",
        "test_decode_seconds_per_token_is_the_time_to_read_all_weights_once",
        "only the longer counts",
    ),
    (
        "decode: cache hidden behind the weights",
        DECODE,
        "return max(kv_bytes / W, weight_bytes / W, 2 * n_params / P)",
        "test_decode_seconds_per_token_adds_the_reading_of_the_cache",
        "they add up",
    ),
    (
        "decode: reading only",
        DECODE,
        "return (kv_bytes + weight_bytes) / W",
        "test_decode_seconds_per_token_is_arithmetic_on_a_chip_that_reads_faster_than_it_multiplies",
        "reading only",
    ),
    (
        "prefill: factor 2 forgotten",
        PREFILL,
        "return max(weight_bytes / W, n_params * n_prompt_tokens / P)",
        "test_prefill_seconds_of_a_long_prompt_are_its_arithmetic",
        "factor 2 forgotten",
    ),
    (
        "prefill: weights read once per position",
        PREFILL,
        "return max(weight_bytes * n_prompt_tokens / W, 2 * n_params * n_prompt_tokens / P)",
        "test_prefill_seconds_of_a_long_prompt_are_its_arithmetic",
        "weights read once per position",
    ),
    (
        "prefill: arithmetic only",
        PREFILL,
        "return 2 * n_params * n_prompt_tokens / P",
        "test_prefill_seconds_of_a_short_prompt_are_the_reading_of_the_weights",
        "the weights must be read",
    ),
    (
        "attention: causal mask forgotten",
        "mean_context = (n_prompt_tokens + 1) / 2",
        "mean_context = n_prompt_tokens",
        "test_attention_share_of_prefill_is_about_2_percent_for_1024_tokens",
        "causal mask forgotten",
    ),
    (
        "attention: scores only",
        ATTENTION,
        "return 2 * n_layers * n_heads * head_dim * mean_context / (2 * n_params)",
        "test_attention_share_of_prefill_is_about_2_percent_for_1024_tokens",
        "only the scores, or only the values",
    ),
    (
        "the first token paid twice",
        WAITING,
        "return ttft_seconds + n_output_tokens * tpot_seconds",
        "test_end_to_end_seconds_waits_once_for_the_first_token_and_then_for_each_other",
        "the first token is already there",
    ),
    (
        "batch forgotten in tokens a second",
        "return batch_size / step_seconds",
        "return 1 / step_seconds",
        "test_tokens_per_second_count_one_token_for_each_sequence_and_step",
        "batch forgotten",
    ),
]
MISTAKES = [
    {"name": f"roofline, {name}", "week": 1, "file": "budget/roofline.py"}
    | {"old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _MISTAKES
]
