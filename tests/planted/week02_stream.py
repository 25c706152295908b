"""Week 2, writing token by token: by NanoLM.stream, and by the tiny decoder once more."""

STREAM = "model/decoder.py"
TINY = "model/tiny_decoder.py"
ENDS = "ends = sampling.ends(self.config.eos_token_ids)"
MADE = "cache = cast(RaggedKVCache, self.new_cache(len(prompts), longest + max_new_tokens, ragged, cache_kind))"
PREFILL = "logits = self(right_padded(prompts, self.device), cache, last)[:, -1]"
LOOP = "for step in range(max_new_tokens):"
YIELD = "yield [None if end else token for token, end in zip(drawn, ended, strict=True)]"
STOP = "            if all(ended):\n                return\n"
RNG = "sampling, rng = sampling or SamplingParams(temperature=0.0), rng or Rng()"
UNEQUAL = "test_stream_takes_rows_of_unequal_length"
EACH_PASS = "test_stream_runs_the_prompt_once_and_then_one_position_a_pass"
END = "test_stream_stops_after_the_end_token"
NONE = "test_stream_gives_none_for_rows_that_have_ended"
NEW = "cache = self.new_cache() if use_cache else None"

# (name, file, old, new, test, what its message says)
_MISTAKES = [
    (
        "room for the longest prompt alone",
        STREAM,
        MADE,
        MADE.replace("longest + max_new_tokens", "longest"),
        "test_stream_makes_a_cache_with_room_for_the_longest_prompt_and_the_text",
        "a cache of 5 positions",
    ),
    ("never a ragged cache", STREAM, MADE, MADE.replace("ragged, cache_kind", "False, cache_kind"), UNEQUAL, "ragged"),
    (
        "every row as long as the longest",
        STREAM,
        "cache.advance(lengths if ragged else longest)",
        "cache.advance(longest)",
        UNEQUAL,
        "every row was counted as long as the longest",
    ),
    (
        "first tokens from behind the padding",
        STREAM,
        PREFILL,
        PREFILL.replace("cache, last)", "cache, last=1)"),
        UNEQUAL,
        "not from the padding behind it",
    ),
    (
        "the first token from the last but one",
        STREAM,
        PREFILL,
        PREFILL.replace("cache, last)", "cache, last - 1)"),
        "test_stream_writes_what_the_model_says",
        "the prompt's *last* token",
    ),
    (
        "decode not counted",
        STREAM,
        "                cache.advance(1)\n",
        "",
        "test_stream_advances_the_cache_by_what_each_pass_read",
        "after the prompt of 8 come 8, 9, 10",
    ),
    (
        "the last token run as well",
        STREAM,
        STOP,
        STOP + "        self(tokens, cache)\n",
        EACH_PASS,
        "the last token was read too",
    ),
    (
        "the whole text in each pass",
        STREAM,
        "                logits = self(tokens, cache)[:, -1]\n",
        "                text = torch.cat([text, tokens], dim=1) if step > 1 else torch.cat([right_padded(prompts), "
        "tokens], dim=1)\n                logits = self(text, cache)[:, -1]\n",
        EACH_PASS,
        "as if there were no cache",
    ),
    (
        "all tokens before the first is yielded",
        STREAM,
        YIELD,
        "steps = [*(steps if step else ()), [None if end else token for token, end in zip(drawn, ended)]]\n"
        "            if step == max_new_tokens - 1:\n                yield from steps",
        "test_stream_yields_a_token_before_it_runs_the_next_pass",
        "streaming means yield inside the loop",
    ),
    ("passes after every row has ended", STREAM, STOP, "", END, "nothing comes after the end token"),
    ("one row's end ends all", STREAM, STOP, STOP.replace("all", "any"), NONE, "one row's end must not end"),
    (
        "tokens of a row that has ended",
        STREAM,
        YIELD,
        "yield drawn",
        NONE,
        "after its end token a row yields None",
    ),
    (
        "end tokens of the model alone",
        STREAM,
        ENDS,
        "ends = set(self.config.eos_token_ids)",
        "test_stream_takes_its_end_tokens_from_the_request_first",
        "end_tokens of the request replace the model's own",
    ),
    (
        "end tokens of the request alone",
        STREAM,
        ENDS,
        "ends = set(sampling.end_tokens or ())",
        END,
        "the end token was not noticed",
    ),
    (
        "one token where none was asked for",
        STREAM,
        LOOP,
        "for step in range(max(1, max_new_tokens)):",
        "test_stream_of_no_new_tokens_yields_nothing",
        "no token was asked for",
    ),
    (
        "a generator where none is given",
        STREAM,
        RNG,
        RNG.replace("temperature=0.0", ""),
        "test_stream_without_sampling_takes_the_largest_logits",
        "no sampling means greedy",
    ),
    (
        "a generator of its own in any case",
        STREAM,
        RNG,
        RNG.replace("rng or Rng()", "Rng()"),
        "test_stream_draws_from_the_generator_it_is_given",
        "one categorical of `rng`",
    ),
    (
        "prompts not checked",
        STREAM,
        "        check_prompts(prompts, max_new_tokens, self.config)\n        ends",
        "        ends",
        "test_stream_refuses_a_bad_request",
        "is impossible because of",
    ),
    (
        "tiny decoder, step: a row too many in the shape",
        TINY,
        "return (x @ self.head)[0]",
        "return x @ self.head",
        "test_forward_step_equals_the_last_row_of_a_full_pass",
        "shape (1, 32) came back, not (V,)",
    ),
    (
        "tiny decoder, step: a full cache not refused",
        TINY,
        "x = self.embed([token], cache.length)",
        "x = self.embed([token], min(cache.length, self.capacity - 1))",
        "test_forward_step_uses_the_last_place_and_refuses_a_full_cache",
        "a full cache must be refused",
    ),
    (
        "tiny decoder, generate: the prompt token by token",
        TINY,
        NEW,
        NEW + "\n        for token in text[:-1] if use_cache and n_new_tokens else ():\n"
        "            self.forward_step(token, cache)\n        pieces, full = [text[-1]], self.forward_full\n"
        "        self.forward_full = lambda text, cache: "
        "self.forward_step(text[-1], cache)[None] if cache else full(text)",
        "test_generate_runs_the_prompt_once_with_a_cache_and_in_every_pass_without",
        "the prompt was fed token by token",
    ),
    (
        "tiny decoder, generate: a pass for no token",
        TINY,
        NEW,
        NEW + "\n        n_new_tokens or self.forward_full(text, cache)",
        "test_generate_of_no_token_is_no_pass",
        "nothing to write: nothing to run",
    ),
    (
        "tiny decoder, generate: an empty prompt blamed on something else",
        TINY,
        "        require_count(1, n_prompt_tokens=len(prompt))\n",
        "",
        "test_generate_refuses_what_it_cannot_write",
        "should name the argument, prompt",
    ),
]
MISTAKES = [
    {"name": f"stream, {name}", "week": 2, "file": file, "old": old, "new": new, "test": test, "says": says}
    for name, file, old, new, test, says in _MISTAKES
]
