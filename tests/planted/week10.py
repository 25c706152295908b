"""Week 10, the price of a token."""

STEP = "return decode_seconds_per_token(batch_size * n_params, weight_bytes, hardware, batch_size * kv_bytes)"
CHIP = "W, P = hardware.bandwidth_bytes_per_second, hardware.peak_flops_per_second; "
NUMBERS = "test_decode_step_llama3_h100_batch_32_numbers"
BEYOND = "test_decode_step_time_of_1000_sequences_is_arithmetic_plus_caches"
CRITICAL = "return int(weight_bits / 8 * hardware.peak_flops_per_second // (2 * hardware.bandwidth_bytes_per_second))"
SEARCH = "decode_step_time(size, n_params, weight_bytes, kv_bytes, hardware)"
PRICE = "return dollars_per_hour / 3600 * step_seconds / batch_size * 1e6"
SHARED = "test_cost_per_million_shares_the_hour_among_all_tokens_of_the_batch"
BETTER = "if not front or point[1] < front[-1][1] or tuple(point[:2]) == tuple(front[-1][:2]):"
FRONT = "test_pareto_front_drops_what_is_beaten_and_sorts_the_rest"

# (name, file, old, new, test, what its message says)
_MISTAKES = [
    (
        "step: the cache read once for the whole batch",
        "budget/decode_batch.py",
        STEP,
        CHIP + "return kv_bytes / W + max(weight_bytes / W, 2 * n_params * batch_size / P)",
        NUMBERS,
        "each of the 32 sequences reads its own cache",
    ),
    (
        "step: arithmetic added to the reading",
        "budget/decode_batch.py",
        STEP,
        CHIP + "return batch_size * kv_bytes / W + weight_bytes / W + 2 * n_params * batch_size / P",
        NUMBERS,
        "arithmetic added",
    ),
    (
        "step: weights read once per sequence",
        "budget/decode_batch.py",
        STEP,
        CHIP + "return batch_size * (kv_bytes / W + max(weight_bytes / W, 2 * n_params / P))",
        NUMBERS,
        "weights read once per sequence",
    ),
    (
        "step: caches hidden behind the arithmetic",
        "budget/decode_batch.py",
        STEP,
        CHIP + "return max((batch_size * kv_bytes + weight_bytes) / W, 2 * n_params * batch_size / P)",
        BEYOND,
        "caches hidden behind the arithmetic",
    ),
    (
        "step: reading only",
        "budget/decode_batch.py",
        STEP,
        CHIP + "return (batch_size * kv_bytes + weight_bytes) / W",
        BEYOND,
        "reading only",
    ),
    (
        "step: factor 2 forgotten",
        "budget/decode_batch.py",
        STEP,
        CHIP + "return batch_size * kv_bytes / W + max(weight_bytes / W, n_params * batch_size / P)",
        BEYOND,
        "factor 2 forgotten",
    ),
    (
        "the embedding counted among the multiplied parameters",
        "budget/shapes.py",
        "self._feedforward_counts().active + self.vocab_size * self.d_model",
        "self._feedforward_counts().active + 2 * self.vocab_size * self.d_model",
        "test_model_shape_multiplies_all_but_the_embedding_and_the_norms",
        "the embedding is counted",
    ),
    (
        "critical batch: factor 2 forgotten",
        "budget/decode_batch.py",
        CRITICAL,
        "return int(weight_bits / 8 * hardware.peak_flops_per_second // hardware.bandwidth_bytes_per_second)",
        "test_critical_batch_of_an_h100_is_295_at_16_bits",
        "factor 2 forgotten",
    ),
    (
        "critical batch: bits of the weights ignored",
        "budget/decode_batch.py",
        CRITICAL,
        "return int(hardware.peak_flops_per_second // hardware.bandwidth_bytes_per_second)",
        "test_critical_batch_of_an_h100_is_295_at_16_bits",
        "weight_bits ignored",
    ),
    (
        "critical batch: rounded up",
        "budget/decode_batch.py",
        CRITICAL,
        "return math.ceil(weight_bits / 16 * hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second)",
        "test_critical_batch_of_an_h100_is_295_at_16_bits",
        "rounded up",
    ),
    (
        "crossover: rounded down",
        "budget/decode_batch.py",
        "return math.ceil(weight_bytes / kv_bytes)",
        "return int(weight_bytes / kv_bytes)",
        "test_crossover_batch_is_where_the_caches_outweigh_the_weights",
        "the weights still weigh more",
    ),
    (
        "largest batch: one too many",
        "budget/decode_batch.py",
        "    return bisect_right(\n",
        "    return 1 + bisect_right(\n",
        "test_max_batch_for_tpot_of_10_ms_is_16",
        "with 17 the step takes 10.24 ms",
    ),
    (
        "largest batch: caches left out",
        "budget/decode_batch.py",
        SEARCH,
        SEARCH.replace("kv_bytes", "0"),
        "test_max_batch_for_tpot_of_10_ms_is_16",
        "caches left out",
    ),
    (
        "price of a step in place of a token",
        "budget/pricing.py",
        PRICE,
        "return dollars_per_hour / 3600 * step_seconds * 1e6",
        SHARED,
        "each step writes one token for every sequence",
    ),
    (
        "an hour taken for a second",
        "budget/pricing.py",
        PRICE,
        "return dollars_per_hour * step_seconds / batch_size * 1e6",
        SHARED,
        "dollars an hour taken for dollars a second",
    ),
    (
        "a front that keeps what is beaten",
        "budget/pricing.py",
        BETTER,
        "if True:",
        FRONT,
        "slower and dearer",
    ),
    (
        "a front that keeps ties in one number",
        "budget/pricing.py",
        BETTER,
        "if not front or point[1] < front[-1][1] or point[0] == front[-1][0]:",
        FRONT,
        "a tie in one number does not save it",
    ),
    (
        "a front sorted by price",
        "budget/pricing.py",
        "    return front\n",
        "    return front[::-1]\n",
        FRONT,
        "sort by the first",
    ),
]
MISTAKES = [
    {"name": f"price, {name}", "week": 10, "file": file, "old": old, "new": new, "test": test, "says": says}
    for name, file, old, new, test, says in _MISTAKES
]
