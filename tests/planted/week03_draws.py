"""Week 3, choosing the token: the draw, and sums in another order."""

GREEDY = """    if sampling.temperature == 0:
        largest, tokens = logits.max(dim=-1)  # the first among equals
        check_finite(largest)
        return tokens
"""
FILTERED = "probs = sampling.probs(logits)"
DRAW = "return torch.tensor([rng.categorical(row) for row in probs.cpu()], device=logits.device)"
IN_ORDER = "test_sample_next_draws_once_for_each_row_in_order"
FROM = "test_sample_next_draws_from_what_the_rules_leave"
NO_DRAW = "test_sample_next_at_temperature_zero_is_greedy_and_uses_no_randomness"
NOTHING = "test_sample_next_refuses_scores_that_say_nothing"

# (name, old, new, test, what its message says)
_SAMPLE = [
    ("the likeliest taken", DRAW, "return probs.argmax(dim=-1)", IN_ORDER, "0 draws from `rng` for 3 rows"),
    ("torch's own generator", DRAW, "return torch.multinomial(probs, 1)[:, 0]", IN_ORDER, "none from elsewhere"),
    ("an rng of its own", DRAW, DRAW.replace("rng.", "Rng(0)."), IN_ORDER, "none from elsewhere"),
    (
        "the last row first",
        DRAW,
        "return torch.tensor([rng.categorical(row) for row in probs.flip(0).cpu()], device=logits.device).flip(0)",
        IN_ORDER,
        "from the last to the first",
    ),
    (
        "one draw for all rows",
        DRAW,
        "return torch.tensor([rng.categorical(probs[0])] * len(probs), device=logits.device)",
        IN_ORDER,
        "1 draws from `rng` for 3 rows",
    ),
    (
        "all rows in one draw",
        DRAW,
        "return torch.tensor(rng.categorical(probs), device=logits.device)",
        IN_ORDER,
        "one row at a time",
    ),
    ("a list", DRAW, "return [rng.categorical(row) for row in probs.cpu()]", IN_ORDER, "a tensor of ids, not a list"),
    ("a column", DRAW, DRAW + "[:, None]", IN_ORDER, "one id a row, (B,) = (3,)"),
    ("floats", DRAW, DRAW + ".double()", IN_ORDER, "ids are whole numbers"),
    ("rules left out", FILTERED, "probs = logits.double().softmax(-1)", FROM, "changed nothing"),
    (
        "the temperature alone",
        FILTERED,
        "probs = SamplingParams(temperature=sampling.temperature).probs(logits)",
        FROM,
        "'top_k': 2} changed nothing",
    ),
    ("a draw at temperature 0", GREEDY, "", NO_DRAW, "greedy needs no rng"),
    (
        "the last among equals",
        GREEDY,
        GREEDY.replace("return tokens", "return logits.shape[-1] - 1 - logits.flip(-1).argmax(-1)"),
        NO_DRAW,
        "not the highest",
    ),
    ("NaN taken when greedy", "        check_finite(largest)\n", "", NOTHING, "impossible because of logits"),
]
ADD = "        total = total + torch.tensor(values[index], dtype=torch.float32)\n"
LOOP = "    for index in order:\n" + ADD
ZERO = "    total = torch.zeros((), dtype=torch.float32)\n"
CHECK = "if sorted(order) != list(range(len(values))):"
AFTER = "test_float32_sum_rounds_after_every_addition"
ONE = "test_float32_sum_adds_one_value_after_the_other"
NOTHING_TO_ADD = "test_float32_sum_of_nothing_is_zero"
NO_ORDER = "test_float32_sum_refuses_an_order_that_is_no_permutation"
_SUM = [
    ("a float64 sum called float32", ZERO, ZERO.replace("float32", "float64"), AFTER, "made in float64"),
    (
        "the order ignored",
        "    for index in order:\n",
        "    for index in range(len(values)):\n",
        AFTER,
        "the order was ignored",
    ),
    (
        "the order turned round",
        "    for index in order:\n",
        "    for index in [list(order).index(i) for i in range(len(values))]:\n",
        AFTER,
        "turned round",
    ),
    (
        "rounded at the end",
        ZERO + LOOP,
        "    total = torch.tensor(sum(values[index] for index in order), dtype=torch.float32)\n",
        ONE,
        "made in float64",
    ),
    (
        "torch.sum",
        ZERO + LOOP,
        "    total = torch.tensor([values[index] for index in order], dtype=torch.float32).sum()\n",
        ONE,
        "adds in groups",
    ),
    (
        "values not rounded",
        ADD,
        "        total = (total.double() + values[index]).float()\n",
        "test_float32_sum_rounds_each_value_first",
        "round each before it is added",
    ),
    (
        "a tensor returned",
        "    return total.item()\n",
        "    return total\n",
        AFTER,
        "the result must be a number",
    ),
    (
        "a NumPy number returned",
        "    return total.item()\n",
        "    return total.numpy()[()]\n",
        "test_float32_sum_is_a_python_float",
        "a Python float, not float32",
    ),
    (
        "the first value needed",
        ZERO + LOOP,
        "    total = torch.tensor(values[order[0]], dtype=torch.float32)\n" + LOOP.replace("in order", "in order[1:]"),
        NOTHING_TO_ADD,
        "a sum without values is 0",
    ),
    ("any order taken", CHECK, "if False:", NO_ORDER, "impossible because of order"),
    (
        "the order's length alone checked",
        CHECK,
        "if len(order) != len(values):",
        NO_ORDER,
        "impossible because of order",
    ),
    (
        "repeats in the order taken",
        CHECK,
        "if set(order) != set(range(len(values))):",
        NO_ORDER,
        "impossible because of order",
    ),
]
SCORES = "    scores = [float32_sum(row, order) for row in terms]\n"
PICK = "    return max(range(len(scores)), key=lambda token: (scores[token], -token))"
ANOTHER = "test_greedy_pick_with_summation_order_picks_another_token_in_another_order"
EQUALS = "test_greedy_pick_with_summation_order_takes_the_lower_id_among_equals"
NEGATIVE = "test_greedy_pick_with_summation_order_picks_the_largest_when_all_are_negative"
_PICK = [
    ("order ignored", SCORES, SCORES.replace("order)", "range(len(row)))"), ANOTHER, "the order was ignored"),
    (
        "float64 sums",
        SCORES,
        "    scores = [sum(row[index] for index in order) for row in terms]\n",
        ANOTHER,
        "made in float64",
    ),
    ("the smallest", PICK, PICK.replace("max(", "min("), ANOTHER, "token 2 has the smallest"),
    ("the logit returned", PICK, "    return max(scores)", ANOTHER, "the token's id, a whole number"),
    ("the highest id", PICK, PICK.replace("-token))", "token))"), EQUALS, "the lowest id, 1"),
    (
        "the largest without its sign",
        PICK,
        PICK.replace("(scores[token],", "(abs(scores[token]),"),
        NEGATIVE,
        "without its sign",
    ),
    (
        "none above 0",
        PICK,
        "    best, pick = 0.0, 0\n    for token, score in enumerate(scores):\n        if score > best:\n"
        "            best, pick = score, token\n    return pick",
        NEGATIVE,
        "token 1 is the largest",
    ),
    (
        "any order taken",
        SCORES,
        "    scores = []\n    for row in terms:\n        total = torch.zeros(())\n        for index in order:\n"
        "            total = total + torch.tensor(row[index % len(row)])\n        scores.append(total.item())\n",
        "test_greedy_pick_with_summation_order_refuses_an_order_that_is_no_permutation",
        "impossible because of order",
    ),
]
_ALL = [("draw", "sampler", mistake) for mistake in _SAMPLE]
_ALL += [("sum", "summation", mistake) for mistake in _SUM] + [("pick", "summation", mistake) for mistake in _PICK]
MISTAKES = [
    {"name": f"{of}: {name}", "week": 3, "file": f"sampling/{file}.py"}
    | {"old": old, "new": new, "test": test, "says": says}
    for of, file, (name, old, new, test, says) in _ALL
]
