"""Week 2: what breaks each sentence of an exercise's docstring, or why it promises nothing that a test could see."""

SENTENCES = {
    "positions_run": {
        "Return how many positions a model runs": "newcomer, positions that are a float",
        "Each pass yields one token": "counts, a pass too few without a cache",
        "Without a cache it runs": "counts, text so far left out",
        "With one, the first pass": "current token left out with a cache",
        "The final token is written": "counts, last token run with a cache",
        "No new token: no pass.": "counts, a prompt run for no token",
        "ValueError: n_prompt_tokens": "sizes, counts of positions not checked",
    },
    "kv_projections": {
        "Return how often a decode projects": "factor 2 forgotten in the projections",
        "ValueError: a count not whole": "sizes, layers not checked",
    },
    "kv_bytes_per_token": {
        "Return the bytes that one token": "sizes, a token's cache, rounded in every layer",
        "Each layer keeps a key and a value": "factor 2 for K and V forgotten",
        "With latent attention": "newcomer, a rotary key left out of the size",
        "ValueError: kv_bits": "sizes, bits of a cache not checked",
        "Source: ": "- names a source",
    },
    "kv_cache_bytes": {
        "Return the bytes of the caches": "batch forgotten in the cache",
        "ValueError: n_tokens": "sizes, tokens of a cache not checked",
    },
    "weight_bytes": {
        "Return the bytes of `n_params`": "sizes, the weights, rounded down",
        "Memory holds all parameters": "- says which count of parameters the caller hands over",
        "The scale of a group counts": "sizes, the weights, fraction of a bit cut off",
        "ValueError: n_params": "sizes, weights not checked",
    },
    "max_concurrent_requests": {
        "Return how many sequences fit": "counts, fewer requests than none",
        "`reserved_bytes` of the memory": "counts, reserve forgotten",
        "ValueError: reserved_bytes": "sizes, sizes of requests not checked",
        "Source: ": "- names a source",
    },
    "max_context": {
        "Return the longest context": "batch forgotten in the largest context",
        "`headroom` is the fraction": "counts, headroom of what the weights leave",
        "Weights and caches share the rest.": "counts, headroom forgotten",
        "The result is rounded down": "counts, fewer tokens than none",
        "ValueError: headroom outside": "sizes, headroom not checked",
    },
}
