"""Week 1, attention's share of a prefill, how long a request waits, and how fast a batch writes."""

ATTENTION = "return 4 * n_layers * n_heads * head_dim * mean_context / (2 * n_params)"
SEEN = "mean_context = (n_prompt_tokens + 1) / 2"
WAITING = "return ttft_seconds + (n_output_tokens - 1) * tpot_seconds"
RATE = "return batch_size / step_seconds"
SHARE = "test_attention_share_of_prefill_is_about_2_percent_for_1024_tokens"
SIZES = "test_attention_share_of_prefill_counts_every_layer_and_every_head"
CHECK = "    require_count(1, n_prompt_tokens=n_prompt_tokens, n_layers=n_layers, n_heads=n_heads, head_dim=head_dim)\n"
WAITS = "test_end_to_end_seconds_waits_once_for_the_first_token_and_then_for_each_other"
NO_REQUEST = "test_end_to_end_seconds_refuses_what_is_no_request"
TOKENS = "test_tokens_per_second_count_one_token_for_each_sequence_and_step"
NO_STEP = "test_tokens_per_second_refuses_what_is_no_step"

# (name, old, new, test, what its message says)
_ATTENTION = [
    ("causal mask forgotten", SEEN, "mean_context = n_prompt_tokens", SHARE, "causal mask forgotten"),
    ("half a position short", SEEN, "mean_context = n_prompt_tokens / 2", SHARE, "half a position short"),
    ("current token left out", SEEN, "mean_context = (n_prompt_tokens - 1) / 2", SHARE, "current token left out"),
    (
        "scores only",
        ATTENTION,
        "return 2 * n_layers * n_heads * head_dim * mean_context / (2 * n_params)",
        SHARE,
        "only the scores, or only the values",
    ),
    (
        "one operation a weight",
        ATTENTION,
        "return 4 * n_layers * n_heads * head_dim * mean_context / n_params",
        SHARE,
        "under the line",
    ),
    (
        "a share of everything",
        ATTENTION,
        "return 1 / (1 + 2 * n_params / (4 * n_layers * n_heads * head_dim * mean_context))",
        SHARE,
        "a share of all operations",
    ),
    ("a percentage", ATTENTION, ATTENTION + " * 100", SHARE, "a percentage"),
    (
        "the whole prompt over one position",
        ATTENTION,
        ATTENTION + " * n_prompt_tokens",
        SHARE,
        "over those of one position",
    ),
    ("heads forgotten", ATTENTION, ATTENTION.replace("n_heads * ", ""), SIZES, "heads forgotten"),
    ("layers forgotten", ATTENTION, ATTENTION.replace("n_layers * ", ""), SIZES, "layers forgotten"),
    ("head_dim forgotten", ATTENTION, ATTENTION.replace("head_dim * ", ""), SIZES, "head_dim forgotten"),
    (
        "cut at 1",
        ATTENTION,
        ATTENTION.replace("return ", "return min(1.0, ") + ")",
        SIZES,
        "the result was cut at 1",
    ),
    (
        "any model taken",
        CHECK,
        "",
        "test_attention_share_of_prefill_refuses_what_is_no_model",
        "impossible because of n_prompt_tokens",
    ),
]
_WAITING = [
    (
        "the first token paid twice",
        WAITING,
        "return ttft_seconds + n_output_tokens * tpot_seconds",
        WAITS,
        "the first token is already there",
    ),
    ("a token short", WAITING, "return ttft_seconds + (n_output_tokens - 2) * tpot_seconds", WAITS, "one wait too few"),
    ("TTFT left out", WAITING, "return (n_output_tokens - 1) * tpot_seconds", WAITS, "is left out"),
    ("TTFT alone", WAITING, "return ttft_seconds", WAITS, "only the wait for the first token"),
    (
        "TTFT for every token",
        WAITING,
        "return n_output_tokens * ttft_seconds + (n_output_tokens - 1) * tpot_seconds",
        WAITS,
        "TTFT is waited once",
    ),
    ("times swapped", WAITING, "return tpot_seconds + (n_output_tokens - 1) * ttft_seconds", WAITS, "swapped"),
    (
        "a time of 0 refused",
        "require_not_negative(ttft_seconds=ttft_seconds, tpot_seconds=tpot_seconds)",
        "require_positive(ttft_seconds=ttft_seconds, tpot_seconds=tpot_seconds)",
        "test_end_to_end_seconds_takes_a_time_of_0",
        "a time of 0 is allowed",
    ),
    (
        "a time below 0 taken",
        "    require_not_negative(ttft_seconds=ttft_seconds, tpot_seconds=tpot_seconds)\n",
        "",
        NO_REQUEST,
        "impossible because of ttft_seconds",
    ),
    (
        "no token taken",
        "    require_count(1, n_output_tokens=n_output_tokens)\n",
        "",
        NO_REQUEST,
        "impossible because of n_output_tokens",
    ),
]
_RATE = [
    ("batch forgotten", RATE, "return 1 / step_seconds", TOKENS, "batch forgotten"),
    ("upside down", RATE, "return step_seconds / batch_size", TOKENS, "upside down"),
    ("the batch divided by", RATE, "return 1 / (step_seconds * batch_size)", TOKENS, "the batch was divided by"),
    ("seconds ignored", RATE, "return batch_size", TOKENS, "the step's seconds are ignored"),
    ("tokens a millisecond", RATE, "return batch_size / step_seconds / 1000", TOKENS, "tokens a millisecond"),
    ("rounded down", RATE, "return batch_size // step_seconds", TOKENS, "rounded down"),
    ("a sequence too many", RATE, "return (batch_size + 1) / step_seconds", TOKENS, "one sequence too many"),
    (
        "a step of no time",
        "    require_positive(step_seconds=step_seconds)\n",
        "",
        NO_STEP,
        "impossible because of step_seconds",
    ),
    ("no sequence", "    require_count(1, batch_size=batch_size)\n", "", NO_STEP, "impossible because of batch_size"),
]
_OF = {"attention": _ATTENTION, "waiting": _WAITING, "tokens a second": _RATE}
MISTAKES = [
    {"name": f"{of}: {name}", "week": 1, "file": "budget/roofline.py"}
    | {"old": old, "new": new, "test": test, "says": says}
    for of, mistakes in _OF.items()
    for name, old, new, test, says in mistakes
]
