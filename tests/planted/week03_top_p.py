"""Week 3, choosing the token: top-p, and the rules one after the other."""

BEFORE = "before = ordered.cumsum(dim=-1) - ordered  # the total without this token"
DROPPED = "dropped = before >= p - rounding_tolerance(probs)"
SORTED = "ordered, order = probs.sort(dim=-1, descending=True, stable=True)"
AT_LEAST_ONE = "    dropped[..., 0] = False\n"
KEPT = """    kept = probs.scatter(-1, order, ordered.masked_fill(dropped, 0.0))
    return kept / kept.sum(dim=-1, keepdim=True)
"""
NORMALISED = "kept / kept.sum(dim=-1, keepdim=True)"
CROSSING = "test_top_p_filter_keeps_the_crossing_token_of_the_worked_example"
EQUAL = "test_top_p_filter_takes_a_total_equal_to_p_up_to_rounding_as_reached"
MISSED = "test_top_p_filter_takes_a_total_that_misses_p_by_more_than_rounding_as_not_reached"

RULES = """        probs = temperature_probs(logits, self.temperature)
        if self.top_k is not None:
            probs = top_k_filter(probs, self.top_k)
        if self.top_p is not None:
            probs = top_p_filter(probs, self.top_p)
        if self.min_p is not None:
            probs = min_p_filter(probs, self.min_p)
        return probs
"""
EACH = "test_probs_applies_each_rule_that_is_given"
SHAPE = "test_probs_are_float64_in_the_shape_of_the_logits"

# (name, old, new, test, what its message says)
_TOP_P = [
    (
        "the crossing token dropped",
        BEFORE,
        "before = ordered.cumsum(dim=-1)",
        CROSSING,
        "top-p drops the crossing token",
    ),
    ("no renormalisation", KEPT, KEPT.replace(NORMALISED, "kept"), CROSSING, "no renormalisation"),
    (
        "one too many",
        DROPPED,
        "dropped = before - ordered.roll(1, -1) >= p - rounding_tolerance(probs)",
        CROSSING,
        "one token too many",
    ),
    ("probabilities compared with p", DROPPED, "dropped = ordered < p", CROSSING, "only the first stays"),
    (
        "a softmax of what stays",
        KEPT,
        KEPT.replace(NORMALISED, "kept.softmax(dim=-1)"),
        CROSSING,
        "a softmax was taken",
    ),
    (
        "probabilities changed in place",
        KEPT,
        KEPT.replace("probs.scatter(", "probs.scatter_("),
        CROSSING,
        "changed its argument probs",
    ),
    ("a total equal to p not reached", DROPPED, "dropped = before > p", EQUAL, "the first two reach it"),
    ("no allowance for rounding", DROPPED, "dropped = before >= p", EQUAL, "the first two reach it"),
    ("float64's allowance for float32", DROPPED, "dropped = before >= p - 1e-9", EQUAL, "the first two reach it"),
    ("float32's allowance for float64", DROPPED, "dropped = before >= p - 1e-6", MISSED, "has not reached 0.8"),
    (
        "nothing kept",
        AT_LEAST_ONE,
        "",
        "test_top_p_filter_with_p_at_or_below_the_largest_keeps_one",
        "nothing was kept",
    ),
    (
        "p = 1 with rounding",
        "    if p == 1:\n        dropped = ordered == 0\n",
        "",
        "test_top_p_filter_with_p_one_keeps_every_possible_token",
        "p = 1 keeps all that is possible",
    ),
    (
        "the higher ids among equals",
        SORTED,
        "ordered, order = probs.flip(-1).sort(dim=-1, descending=True, stable=True)\n"
        "    order = probs.shape[-1] - 1 - order",
        "test_top_p_filter_keeps_the_lower_ids_among_equals",
        "of five equals the first three",
    ),
    (
        "sorted probabilities returned",
        KEPT,
        KEPT.replace(
            "probs.scatter(-1, order, ordered.masked_fill(dropped, 0.0))", "ordered.masked_fill(dropped, 0.0)"
        ),
        "test_top_p_filter_keeps_tokens_in_their_places",
        "came back sorted",
    ),
    (
        "the totals of all rows",
        BEFORE,
        "before = (ordered.flatten().cumsum(dim=-1) - ordered.flatten()).view_as(ordered)",
        "test_top_p_filter_treats_each_row_on_its_own",
        "each with a set of its own",
    ),
    (
        "any p taken",
        "    check_top_p(p)\n",
        "",
        "test_top_p_filter_refuses_p_outside_its_range",
        "impossible because of p",
    ),
]
_PROBS = [
    (
        "temperature applied after the filters",
        RULES.replace("self.temperature", "1.0").replace(
            "return probs", "return temperature_probs(probs.log(), self.temperature)"
        ),
        "test_probs_applies_the_temperature_before_the_filters",
        "the temperature is applied after the filters",
    ),
    (
        "top-p before top-k",
        RULES.replace("top_k", "swapped").replace("top_p", "top_k").replace("swapped", "top_p"),
        "test_probs_applies_top_k_before_top_p",
        "top-k comes before top-p",
    ),
    (
        "min-p before top-p",
        RULES.replace("top_p", "swapped").replace("min_p", "top_p").replace("swapped", "min_p"),
        "test_probs_applies_min_p_after_top_p",
        "min-p comes after top-p",
    ),
    (
        "top-p of what the model said",
        RULES.replace("top_p_filter(probs,", "probs * 0 + top_p_filter(temperature_probs(logits, self.temperature),"),
        "test_probs_hands_top_p_the_renormalised_probabilities",
        "no renormalisation between top-k and top-p",
    ),
    ("the temperature left out", RULES.replace("self.temperature", "1.0"), EACH, "'temperature': 0.5} changed nothing"),
    ("top-k left out", RULES.replace("if self.top_k is not None", "if False"), EACH, "'top_k': 2} changed nothing"),
    ("top-p left out", RULES.replace("if self.top_p is not None", "if False"), EACH, "'top_p': 0.9} changed nothing"),
    ("min-p left out", RULES.replace("if self.min_p is not None", "if False"), EACH, "'min_p': 0.25} changed nothing"),
    ("filters that are None applied", RULES.replace("if self.top_k is not None", "if True"), EACH, "None is left out"),
    ("float32 returned", RULES.replace("return probs", "return probs.float()"), SHAPE, "the result is float64"),
    (
        "rows in one list",
        RULES.replace("temperature_probs(logits,", "temperature_probs(logits.reshape(-1, logits.shape[-1]),"),
        SHAPE,
        "has the shape of logits",
    ),
    (
        "impossible logits mended",
        RULES.replace("temperature_probs(logits,", "temperature_probs(logits.nan_to_num(),"),
        "test_probs_refuses_logits_that_say_nothing",
        "impossible because of logits",
    ),
]
# In the engine itself: the exercise of the order meets the reference's filters.
_BETWEEN = {
    "name": "no renormalisation between top-k and top-p",
    "week": 3,
    "file": "sampling/filters.py",
    "old": "    kept = probs.scatter(-1, order[..., k:], 0.0)\n    return kept / kept.sum(dim=-1, keepdim=True)\n",
    "new": "    return probs.scatter(-1, order[..., k:], 0.0)\n",
    "test": "test_probs_hands_top_p_the_renormalised_probabilities",
    "says": "no renormalisation between top-k and top-p",
}
_ALL = [("top-p", "filters", mistake) for mistake in _TOP_P]
_ALL += [("rules", "params", (name, RULES, new, test, says)) for name, new, test, says in _PROBS]
MISTAKES = [
    {"name": f"{of}: {name}", "week": 3, "file": f"sampling/{file}.py"}
    | {"old": old, "new": new, "test": test, "says": says}
    for of, file, (name, old, new, test, says) in _ALL
]
MISTAKES.append(_BETWEEN)
