"""Week 1: each sentence of a docstring, and the planted mistake that breaks it, or "- " and why none can."""

_SOURCE = "- names a source"
SENTENCES = {
    "matmul_flops": {
        "Return the operations of a pass": "roofline, factor 2 forgotten in a pass",
        "ValueError: n_params not above 0": "roofline, half a position",
        "Source: Kaplan 2020": _SOURCE,
    },
    "arithmetic_intensity": {
        "Return the operations that a pass does": "roofline, intensity upside down",
        "n_tokens: positions that one reading": "roofline, intensity of one position",
        "n_params: parameters multiplied": "roofline, factor 2 forgotten in the intensity",
        "weight_bytes: bytes of weights read": "roofline, two bytes a parameter in the intensity",
        "kv_bytes: bytes of cache read": "roofline, the cache of all counted for each",
        "ValueError: n_tokens not a whole number": "roofline, an intensity with a negative cache",
        "Source: Williams 2009": _SOURCE,
    },
    "ridge_point": {
        "Return the intensity, in operations a byte": "roofline, ridge point upside down",
        "Source: Williams 2009": _SOURCE,
    },
    "bottleneck": {
        'Return "memory" for an intensity below': "roofline, the ridge point itself counted as memory",
        "ValueError: intensity not a finite number": "roofline, any intensity taken",
    },
    "decode_seconds_per_token": {
        "Return the seconds of one decode pass": "decode: rates swapped",
        "The longer of reading all weights": "decode: cache hidden behind the weights",
        "`n_params` counts the parameters multiplied": "decode: factor 2 forgotten",
        "ValueError: n_params or weight_bytes": "decode: a negative cache taken",
        "Source: Pope 2022": _SOURCE,
    },
    "prefill_seconds": {
        "Return the seconds of the one pass": "prefill: one position",
        "The longer of reading the weights, once": "prefill: weights read once per position",
        "ValueError: n_prompt_tokens not a whole": "prefill: no prompt taken",
        "Source: Pope 2022": _SOURCE,
    },
    "attention_share_of_prefill": {
        "Return what scores and weighted values add": "attention: a share of everything",
        "Position t sees t positions": "attention: current token left out",
        "For each position seen, a layer does": "attention: scores only",
        "The weights cost 2·n_params": "attention: one operation a weight",
        "The result grows with T": "attention: cut at 1",
        "ValueError: n_params not above 0": "attention: any model taken",
    },
    "end_to_end_seconds": {
        "Return the seconds from a request": "waiting: a token short",
        "The first token arrives after": "waiting: times swapped",
        "ValueError: a time below 0": "waiting: no token taken",
    },
    "tokens_per_second": {
        "Return the tokens that a batch writes": "tokens a second: batch forgotten",
        "ValueError: step_seconds not above 0": "tokens a second: a step of no time",
    },
}
