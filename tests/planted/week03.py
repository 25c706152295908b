"""Week 3, choosing the token: temperature and top-k."""

SOFTMAX = "    return torch.softmax((logits - largest) / temperature, dim=-1)\n"
GREEDY = "        return torch.zeros_like(logits).scatter_(-1, logits.argmax(dim=-1, keepdim=True), 1.0)\n"
LARGEST = "    largest = logits.max(dim=-1, keepdim=True).values\n    check_finite(largest)\n"
FIRST = "order = probs.argsort(dim=-1, descending=True, stable=True)"
DROP = "kept = probs.scatter(-1, order[..., k:], 0.0)"
TOP_K = f"""    {FIRST}
    {DROP}
    return kept / kept.sum(dim=-1, keepdim=True)
"""
CHECK_K = "    check_top_k(k)\n    if k >= probs.shape[-1]:\n        return probs\n"

EXAMPLE = "test_temperature_probs_of_the_worked_example"
FLOAT64 = "test_temperature_probs_are_float64_whatever_the_logits_are"
AT_ZERO = "test_temperature_probs_at_zero_is_all_on_the_largest"
TIES = "test_temperature_probs_at_zero_goes_to_the_lowest_id_among_equals"
NEAR = "test_temperature_probs_near_zero_goes_to_greedy_without_overflow"
ROWS = "test_temperature_probs_treats_each_row_on_its_own"
FORBIDDEN = "test_temperature_probs_forbids_at_a_high_temperature_too"
NOTHING = "test_temperature_probs_refuses_what_has_no_distribution"
TWO = "test_top_k_filter_keeps_the_two_likeliest_of_the_worked_example"
TIED = "test_top_k_filter_keeps_exactly_k_when_the_kth_is_tied"
ALL = "test_top_k_filter_with_k_at_or_above_v_changes_nothing"

# (name, old, new, test, what its message says)
_TEMPERATURE = [
    (
        "temperature multiplied instead of divided",
        "(logits - largest) / temperature",
        "(logits - largest) * temperature",
        EXAMPLE,
        "*divided*",
    ),
    ("temperature ignored", SOFTMAX, SOFTMAX.replace(" / temperature", ""), EXAMPLE, "the temperature was ignored"),
    (
        "probabilities divided",
        SOFTMAX,
        "    return torch.softmax(logits, dim=-1) / temperature\n",
        EXAMPLE,
        "the probabilities were divided",
    ),
    ("exponentials alone", SOFTMAX, "    return (logits / temperature).exp()\n", EXAMPLE, "not divided by their sum"),
    (
        "logits changed in place",
        SOFTMAX,
        "    return torch.softmax(logits.sub_(largest) / temperature, dim=-1)\n",
        EXAMPLE,
        "changed its argument logits",
    ),
    ("float32 throughout", "logits = logits.double()\n", "logits = logits.float()\n", FLOAT64, "are float64, not"),
    (
        "float64 at the end only",
        "    logits = logits.double()\n" + LARGEST + "    if temperature == 0:\n" + GREEDY,
        LARGEST
        + "    if temperature == 0:\n"
        + GREEDY.replace("(logits)", "(logits.double())")
        + "    logits, largest = ((logits - largest) / temperature).softmax(-1).double().log() * temperature, 0.0\n",
        FLOAT64,
        "convert to float64 first",
    ),
    ("a division by zero", "    if temperature == 0:\n" + GREEDY, "", AT_ZERO, "not a division by zero"),
    (
        "greedy shares among equals",
        GREEDY,
        "        return (logits == largest) / (logits == largest).sum(dim=-1, keepdim=True).double()\n",
        TIES,
        "greedy picks one token",
    ),
    (
        "greedy takes the last of equals",
        GREEDY,
        GREEDY.replace("logits.argmax(dim=-1", "logits.shape[-1] - 1 - logits.flip(-1).argmax(dim=-1"),
        TIES,
        "among equals the lowest id",
    ),
    (
        "temperature divided before the largest is taken away",
        SOFTMAX,
        "    return torch.softmax(logits / temperature, dim=-1)\n",
        NEAR,
        "subtract the largest logit",
    ),
    ("softmax over the rows", SOFTMAX, SOFTMAX.replace("dim=-1", "dim=0"), ROWS, "over the vocabulary"),
    (
        "one largest logit for all rows",
        LARGEST,
        LARGEST + "    largest = logits.max()\n",
        ROWS,
        "each row has its own largest logit",
    ),
    (
        "a large negative number for -inf",
        "    check_finite(largest)\n    if temperature",
        "    check_finite(largest)\n    logits = logits.clamp(min=-1e9)\n    if temperature",
        FORBIDDEN,
        "-inf means 0 at any T",
    ),
    ("any logits taken", "    check_finite(largest)\n    if", "    if", NOTHING, "impossible because of logits"),
    ("any temperature taken", "    check_temperature(temperature)\n", "", NOTHING, "impossible because of temperature"),
]
_TOP_K = [
    (
        "no renormalisation",
        TOP_K,
        TOP_K.replace("kept / kept.sum(dim=-1, keepdim=True)", "kept"),
        TWO,
        "no renormalisation",
    ),
    ("the least probable kept", FIRST, FIRST.replace("descending=True, ", ""), TWO, "the least probable stay"),
    ("one too few", DROP, DROP.replace("k:", "k - 1 :"), TWO, "one token too few"),
    ("one too many", DROP, DROP.replace("k:", "k + 1 :"), TWO, "one token too many"),
    (
        "a softmax of what stays",
        TOP_K,
        TOP_K.replace("kept / kept.sum(dim=-1, keepdim=True)", "kept.softmax(dim=-1)"),
        TWO,
        "a softmax was taken",
    ),
    ("probabilities changed in place", DROP, DROP.replace("scatter(", "scatter_("), TWO, "changed its argument probs"),
    (
        "sorted probabilities returned",
        TOP_K,
        "    kept = probs.sort(dim=-1, descending=True).values\n    kept[..., k:] = 0\n"
        "    return kept / kept.sum(dim=-1, keepdim=True)\n",
        "test_top_k_filter_keeps_tokens_in_their_places",
        "came back sorted",
    ),
    (
        "k above V refused",
        CHECK_K,
        '    check_top_k(k)\n    if k > probs.shape[-1]:\n        raise ValueError("k is above V")\n',
        ALL,
        "keeps them all",
    ),
    (
        "k-th ties all kept by a threshold",
        TOP_K,
        "    kept = probs.where(probs >= probs.topk(k, dim=-1).values[..., -1:], 0.0)\n"
        "    return kept / kept.sum(dim=-1, keepdim=True)\n",
        TIED,
        "k-th ties",
    ),
    (
        "the higher ids among equals",
        FIRST,
        "order = probs.shape[-1] - 1 - probs.flip(-1).argsort(dim=-1, descending=True, stable=True)",
        TIED,
        "among equals the lower ids stay",
    ),
    (
        "the order of the first row for all",
        FIRST,
        FIRST + ".reshape(-1, probs.shape[-1])[0].expand_as(probs)",
        "test_top_k_filter_treats_each_row_on_its_own",
        "each filtered by itself",
    ),
    (
        "k below 1 taken",
        CHECK_K,
        "    if k >= probs.shape[-1]:\n        return probs\n",
        "test_top_k_filter_refuses_to_keep_nothing",
        "impossible because of k",
    ),
]
MISTAKES = [
    {"name": f"{of}: {name}", "week": 3, "file": "sampling/filters.py"}
    | {"old": old, "new": new, "test": test, "says": says}
    for of, mistakes in (("temperature", _TEMPERATURE), ("top-k", _TOP_K))
    for name, old, new, test, says in mistakes
]
