"""Week 10, the price of a token: how long a step takes."""

STEP = "return decode_seconds_per_token(batch_size * n_params, weight_bytes, hardware, batch_size * kv_bytes)"
CHIP = "W, P = hardware.bandwidth_bytes_per_second, hardware.peak_flops_per_second; "
NUMBERS = "test_decode_step_llama3_h100_batch_32_numbers"
BEYOND = "test_decode_step_time_of_1000_sequences_is_arithmetic_plus_caches"
NO_STEP = "test_decode_step_time_refuses_what_is_no_step"
COUNT = "    require_count(1, batch_size=batch_size)\n"
CHECK = "    require_positive(n_params=n_params, weight_bytes=weight_bytes)\n"
NO_CACHE = "    require_not_negative(kv_bytes=kv_bytes)\n"
WHY = "    # One sequence's pass with B times the multiplications and B times the cache: "
WHY += "the weights alone are read once.\n"
ALL = COUNT + CHECK + NO_CACHE + WHY + f"    {STEP}"
WRITTEN_OUT = CHIP + "return batch_size * kv_bytes / W + max(weight_bytes / W, 2 * n_params * batch_size / P)"

# (name, new, test, what its message says)
_MISTAKES = [
    (
        "step: the cache read once for the whole batch",
        CHIP + "return kv_bytes / W + max(weight_bytes / W, 2 * n_params * batch_size / P)",
        NUMBERS,
        "each of the 32 sequences reads its own cache",
    ),
    (
        "step: arithmetic added to the reading",
        CHIP + "return batch_size * kv_bytes / W + weight_bytes / W + 2 * n_params * batch_size / P",
        NUMBERS,
        "arithmetic added",
    ),
    (
        "step: weights read once per sequence",
        CHIP + "return batch_size * (kv_bytes / W + max(weight_bytes / W, 2 * n_params / P))",
        NUMBERS,
        "weights read once per sequence",
    ),
    (
        "step: caches left out",
        CHIP + "return max(weight_bytes / W, 2 * n_params * batch_size / P)",
        NUMBERS,
        "caches left out",
    ),
    (
        "step: divided among the sequences",
        CHIP + "return kv_bytes / W + max(weight_bytes / W, 2 * n_params * batch_size / P) / batch_size",
        NUMBERS,
        "a sequence's share of the step",
    ),
    (
        "step: the shorter time",
        CHIP + "return batch_size * kv_bytes / W + min(weight_bytes / W, 2 * n_params * batch_size / P)",
        NUMBERS,
        "the shorter of reading and arithmetic",
    ),
    (
        "step: weights hidden behind the caches",
        CHIP + "return max(batch_size * kv_bytes / W, weight_bytes / W, 2 * n_params * batch_size / P)",
        NUMBERS,
        "the longer of both was taken",
    ),
    (
        "step: two bytes a parameter",
        CHIP + "return batch_size * kv_bytes / W + max(2 * n_params / W, 2 * n_params * batch_size / P)",
        NUMBERS,
        "weight_bytes ignored",
    ),
    (
        "step: bytes over operations a second",
        CHIP + "return (batch_size * kv_bytes + weight_bytes) / P",
        NUMBERS,
        "bytes divided by operations a second",
    ),
    (
        "step: caches hidden behind the arithmetic",
        CHIP + "return max((batch_size * kv_bytes + weight_bytes) / W, 2 * n_params * batch_size / P)",
        BEYOND,
        "caches hidden behind the arithmetic",
    ),
    (
        "step: caches hidden behind the arithmetic, that of 476",
        CHIP + "return max((batch_size * kv_bytes + weight_bytes) / W, 2 * n_params * batch_size / P)",
        "test_decode_step_time_of_476_requests_is_no_longer_hidden_behind_the_weights",
        "23.55 ms are all that is read",
    ),
    (
        "step: caches hidden behind the arithmetic, that of a million",
        CHIP + "return max((batch_size * kv_bytes + weight_bytes) / W, 2 * n_params * batch_size / P)",
        "test_decode_step_time_of_a_huge_batch_approaches_a_cache_and_the_arithmetic_of_one_position",
        "are the caches alone",
    ),
    ("step: reading only", CHIP + "return (batch_size * kv_bytes + weight_bytes) / W", BEYOND, "reading only"),
    (
        "step: one position multiplied",
        CHIP + "return batch_size * kv_bytes / W + max(weight_bytes / W, 2 * n_params / P)",
        BEYOND,
        "left out, or that of one?",
    ),
    (
        "step: factor 2 forgotten",
        CHIP + "return batch_size * kv_bytes / W + max(weight_bytes / W, n_params * batch_size / P)",
        BEYOND,
        "factor 2 forgotten",
    ),
]
_REFUSALS = [
    ("step: no sequence taken", COUNT + CHECK, CHECK, "should name the argument, batch_size"),
    (
        "step: weights without bytes taken",
        ALL,
        COUNT + NO_CACHE + f"    {WRITTEN_OUT}",
        "impossible because of n_params",
    ),
    ("step: a negative cache taken", ALL, COUNT + CHECK + f"    {WRITTEN_OUT}", "impossible because of kv_bytes"),
]
_SHAPE = {
    "name": "price, the embedding counted among the multiplied parameters",
    "week": 10,
    "file": "budget/shapes.py",
    "old": "self._feedforward_counts().active + self.vocab_size * self.d_model",
    "new": "self._feedforward_counts().active + 2 * self.vocab_size * self.d_model",
    "test": "test_model_shape_multiplies_all_but_the_embedding_and_the_norms",
    "says": "the embedding is counted",
}
_STEPS = [(name, STEP, new, test, says) for name, new, test, says in _MISTAKES]
_STEPS += [(name, old, new, NO_STEP, says) for name, old, new, says in _REFUSALS]
MISTAKES = [
    {"name": f"price, {name}", "week": 10, "file": "budget/decode_batch.py"}
    | {"old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _STEPS
]
MISTAKES.append(_SHAPE)
