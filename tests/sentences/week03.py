"""Week 3: each sentence of a docstring, and the planted mistake that breaks it, or "- " and why none can."""

SENTENCES = {
    "temperature_probs": {
        "Return softmax(logits / temperature) in float64": "temperature: float64 at the end only",
        "Temperature 0 is the limit": "temperature: greedy shares among equals",
        "A logit of -inf is a forbidden token": "temperature: a large negative number for -inf",
        "ValueError: temperature negative": "temperature: any logits taken",
    },
    "top_k_filter": {
        "Return probs with all but the k most probable": "top-k: no renormalisation",
        "Exactly k stay: among equals": "top-k: the higher ids among equals",
        "ValueError: k below 1": "top-k: k below 1 taken",
    },
    "top_p_filter": {
        "Return probs with only the smallest set": "top-p: one too many",
        "Tokens are taken from the most probable down": "top-p: the crossing token dropped",
        "A total equal to p up to rounding": "top-p: float64's allowance for float32",
        "At least one token stays": "top-p: nothing kept",
        "ValueError: p outside (0, 1]": "top-p: any p taken",
    },
    "SamplingParams.probs": {
        "Return the distribution that the next token": "rules: min-p before top-p",
        "Each filter sees what the one before": "rules: top-p of what the model said",
        "The result is float64": "rules: rows in one list",
        "ValueError: what `temperature_probs` refuses": "rules: impossible logits mended",
    },
    "sample_next": {
        "Return one token a row, (B,) integers": "draw: the temperature alone",
        "Rows are drawn from the first to the last": "draw: the last row first",
        "At temperature 0 a row's token": "draw: a draw at temperature 0",
        "ValueError: a row whose logits are all -inf": "draw: NaN taken when greedy",
    },
    "float32_sum": {
        "Return the float32 sum of the values": "sum: torch.sum",
        "The values themselves are rounded": "sum: values not rounded",
        "The result is a Python float": "sum: a NumPy number returned",
        "ValueError: order is not a permutation": "sum: repeats in the order taken",
    },
    "greedy_pick_with_summation_order": {
        "Return the token with the largest logit": "pick: the largest without its sign",
        "`terms[token]` are the products": "pick: float64 sums",
        "The same terms in another order": "pick: order ignored",
        "Equal logits go to the lower id": "pick: the highest id",
        "ValueError: order is not a permutation": "pick: any order taken",
    },
}
