"""Week 7, prompt caching: each sentence of the docstrings, and the planted mistake that breaks it."""

SENTENCES = {
    "reusable_prefix_tokens": {
        "Return how many tokens of the prompt need not be run": "the last cached token not reused",
        "Keys and values depend on all tokens before them": "tokens behind the first difference reused",
        "The result is a whole multiple": "rounded before one position is left",
        "Of an empty prompt it is 0.": "less than nothing of an empty prompt",
        "ValueError: granularity not a whole number above 0.": "any granularity but 0",
    },
    "route_by_prefix": {
        "Return the index of the replica": "an index among those not too busy",
        "The one with the most cached tokens of it": "the last of equals",
        "A replica whose load is more than": "extra load above that of the one with most cached",
        "ValueError: no replica, or max_extra_load below 0.": "a guard below 0 accepted",
    },
    "request_dollars": {
        "Return the price of one request": "input and output prices swapped",
        "ValueError: a token count that is not": "a price below 0 paid out",
    },
    "prompt_cache_cost": {
        "Return the dollars for the prompts of all requests": "one request billed for all",
        "A request that finds the shared part in the cache pays": "the write surcharge forgotten",
        "Writing and reading both start the time to live anew": "time to live counted from the write",
        "Only a whole multiple of `granularity_tokens`": "the part below a unit not paid for",
        "No request: 0 dollars.": "the first request billed though nobody came",
        "ValueError: a token count not a whole number": "fewer tokens than none billed",
    },
}
