"""Week 3, choosing the token."""

_TOP_K = """    order = probs.argsort(dim=-1, descending=True, stable=True)
    kept = probs.scatter(-1, order[..., k:], 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)
"""
_TOP_P = """    kept = probs.scatter(-1, order, ordered.masked_fill(dropped, 0.0))
    return kept / kept.sum(dim=-1, keepdim=True)
"""
_RULES = """        probs = temperature_probs(logits, self.temperature)
        if self.top_k is not None:
            probs = top_k_filter(probs, self.top_k)
        if self.top_p is not None:
            probs = top_p_filter(probs, self.top_p)
        if self.min_p is not None:
            probs = min_p_filter(probs, self.min_p)
        return probs
"""

MISTAKES = [
    {
        "name": "top-p drops the crossing token",
        "week": 3,
        "file": "sampling/filters.py",
        "old": "before = ordered.cumsum(dim=-1) - ordered",
        "new": "before = ordered.cumsum(dim=-1)",
        "test": "test_top_p_filter_keeps_the_crossing_token_of_the_worked_example",
        "says": "top-p drops the crossing token",
    },
    {
        "name": "no renormalisation after top-p",
        "week": 3,
        "file": "sampling/filters.py",
        "old": _TOP_P,
        "new": _TOP_P.replace("kept / kept.sum(dim=-1, keepdim=True)", "kept"),
        "test": "test_top_p_filter_keeps_the_crossing_token_of_the_worked_example",
        "says": "no renormalisation",
    },
    {
        "name": "no renormalisation after top-k",
        "week": 3,
        "file": "sampling/filters.py",
        "old": _TOP_K,
        "new": _TOP_K.replace("kept / kept.sum(dim=-1, keepdim=True)", "kept"),
        "test": "test_top_k_filter_keeps_the_two_likeliest_of_the_worked_example",
        "says": "no renormalisation",
    },
    {
        "name": "no renormalisation between top-k and top-p",
        "week": 3,
        "file": "sampling/filters.py",
        "old": _TOP_K,
        "new": _TOP_K.replace("kept / kept.sum(dim=-1, keepdim=True)", "kept"),
        "test": "test_probs_hands_top_p_the_renormalised_probabilities",
        "says": "no renormalisation between top-k and top-p",
    },
    {
        "name": "temperature applied after the filters",
        "week": 3,
        "file": "sampling/params.py",
        "old": _RULES,
        "new": _RULES.replace("self.temperature", "1.0").replace(
            "return probs", "return temperature_probs(probs.log(), self.temperature)"
        ),
        "test": "test_probs_applies_the_temperature_before_the_filters",
        "says": "the temperature is applied after the filters",
    },
    {
        "name": "top-p before top-k",
        "week": 3,
        "file": "sampling/params.py",
        "old": _RULES,
        "new": _RULES.replace("top_k", "swapped").replace("top_p", "top_k").replace("swapped", "top_p"),
        "test": "test_probs_applies_top_k_before_top_p",
        "says": "top-k comes before top-p",
    },
    {
        "name": "min-p before top-p",
        "week": 3,
        "file": "sampling/params.py",
        "old": _RULES,
        "new": _RULES.replace("top_p", "swapped").replace("min_p", "top_p").replace("swapped", "min_p"),
        "test": "test_probs_applies_min_p_after_top_p",
        "says": "min-p comes after top-p",
    },
    {
        "name": "k-th ties all kept by a threshold",
        "week": 3,
        "file": "sampling/filters.py",
        "old": _TOP_K,
        "new": "    kept = probs.where(probs >= probs.topk(k, dim=-1).values[..., -1:], 0.0)\n"
        "    return kept / kept.sum(dim=-1, keepdim=True)\n",
        "test": "test_top_k_filter_keeps_exactly_k_when_the_kth_is_tied",
        "says": "k-th ties",
    },
    {
        "name": "temperature multiplied instead of divided",
        "week": 3,
        "file": "sampling/filters.py",
        "old": "(logits - largest) / temperature",
        "new": "(logits - largest) * temperature",
        "test": "test_temperature_probs_of_the_worked_example",
        "says": "*divided*",
    },
    {
        "name": "temperature divided before the largest is taken away",
        "week": 3,
        "file": "sampling/filters.py",
        "old": "torch.softmax((logits - largest) / temperature, dim=-1)",
        "new": "torch.softmax(logits / temperature, dim=-1)",
        "test": "test_temperature_probs_near_zero_goes_to_greedy_without_overflow",
        "says": "subtract the largest logit",
    },
    {
        "name": "a float64 sum called float32",
        "week": 3,
        "file": "sampling/summation.py",
        "old": "total = torch.zeros((), dtype=torch.float32)",
        "new": "total = torch.zeros((), dtype=torch.float64)",
        "test": "test_float32_sum_depends_on_the_order",
        "says": "round after every addition",
    },
]
