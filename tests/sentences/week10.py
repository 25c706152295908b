"""Week 10: each sentence of a docstring, and the planted mistake that breaks it, or "- " and why none can."""

SENTENCES = {
    "decode_step_time": {
        "Return the seconds of one decode pass of a batch": "price, step: divided among the sequences",
        "The longer of reading the weights, once for all": "price, step: weights read once per sequence",
        "batch_size: B.": "- names an argument; what it does is in the sentences above",
        "n_params: parameters multiplied": "price, step: factor 2 forgotten",
        "weight_bytes: bytes of weights read": "price, step: two bytes a parameter",
        "kv_bytes: cache of one sequence": "price, step: the cache read once for the whole batch",
        "hardware: the chip": "- names an argument",
        "ValueError: batch_size not a whole number": "price, step: no sequence taken",
        "Source: Pope 2022": "- names a source",
    },
    "cost_per_million": {
        "Return the dollars for a million written tokens": "price, the price of a thousand",
        "Each step writes one token for each": "price, price of a step in place of a token",
        "ValueError: batch_size not a whole number": "price, no sequence",
    },
    "crossover_batch": {
        "Return the smallest batch whose caches": "price, crossover: rounded down",
        "ValueError: an argument not above 0": "price, crossover: caches without bytes",
    },
    "critical_batch": {
        "Return the largest batch for which multiplying": "price, critical batch: equally long left out",
        "A parameter is read once": "price, critical batch: bits for bytes",
        "Up to this batch, one more sequence": "- says what the number means",
        "The result is rounded down, and may be 0": "price, critical batch: at least 1",
        "ValueError: weight_bits not above 0": "price, critical batch: weights without bits",
    },
    "max_batch_for_tpot": {
        "Return the largest batch whose decode pass": "price, largest batch: exactly the goal is too long",
        "The other arguments are those of": "price, largest batch: caches left out",
        "Whether the caches fit into memory": "- says what the number does not mean",
        "ValueError: kv_bytes below 0": "price, largest batch: a goal of no time",
    },
    "pareto_front": {
        "Return the points that no other point beats": "price, a front sorted by price",
        "A point is (seconds, dollars, …)": "price, labels lost",
        "A point is beaten by one that is no worse": "price, a front that keeps ties in one number",
        "No point: an empty list": "price, no point refused",
        "ValueError: a point with fewer than two": "price, points that are no numbers",
    },
}
