"""Week 2, what a newcomer's wrong answers got full points for, or were told wrongly."""

END = "test_stream_stops_after_the_end_token"
STREAM = "model/decoder.py"
SIZES = "budget/memory.py"
ROPE = "attention/rope.py"
TINY = "model/tiny_decoder.py"
CACHE = "cache/contiguous.py"
CUT = "a, b = x.chunk(2, dim=-1)"
YIELD = "yield [None if end else token for token, end in zip(drawn, ended, strict=True)]"
YIELDED = "the end token itself is still yielded"

# (name, file, old, new, test, what its message says)
_MISTAKES = [
    (
        "no generator of its own",
        STREAM,
        "rng or Rng()\n",
        "rng\n",
        "test_stream_makes_a_generator_of_its_own_where_it_is_given_none",
        "make one, Rng()",
    ),
    (
        "the kind of cache unheard",
        STREAM,
        "longest + max_new_tokens, ragged, cache_kind)",
        "longest + max_new_tokens, ragged)",
        "test_stream_makes_a_cache_of_the_kind_it_is_asked_for",
        "`cache_kind` was not handed to `new_cache`",
    ),
    (
        "a prefill that scores all positions",
        STREAM,
        "cache, last)[:, -1]  # prefill",
        "cache)[torch.arange(len(prompts)), last]  # prefill",
        "test_stream_asks_the_prefill_for_one_position_a_row",
        "the prefill made logits of 8 positions a row",
    ),
    (
        "an end token kept back",
        STREAM,
        YIELD,
        YIELD.replace("if end else", "if end or token in ends else"),
        "test_stream_gives_none_for_rows_that_have_ended",
        YIELDED,
    ),
    (
        "an end token of the request kept back",
        STREAM,
        YIELD,
        f"if drawn[0] not in ends:\n                {YIELD}",
        "test_stream_takes_its_end_tokens_from_the_request_first",
        YIELDED,
    ),
    ("a text without its end token", STREAM, YIELD, f"if drawn[0] not in ends:\n                {YIELD}", END, YIELDED),
    (
        "tokens that are tensors",
        STREAM,
        "drawn = tokens[:, 0].tolist()",
        "drawn = list(tokens[:, 0])",
        "test_stream_writes_what_the_model_says",
        "tokens must be Python ints (.tolist())",
    ),
    (
        "a token for the first row alone",
        STREAM,
        YIELD,
        YIELD.replace("yield ", "yield [drawn[0]] or "),
        "test_stream_takes_rows_of_unequal_length",
        "1 token came for 3 rows",
    ),
    (
        "a gradient through the keys",
        CACHE,
        "= k.detach()",
        "= k",
        "test_update_lets_no_gradient_into_the_cache",
        "a gradient flows into the keys of the cache",
    ),
    (
        "a gradient through the values",
        CACHE,
        "= v.detach()",
        "= v",
        "test_update_lets_no_gradient_into_the_cache",
        "a gradient flows into the values of the cache",
    ),
    (
        "positions that are a float",
        SIZES,
        "return sum(n_prompt_tokens + n_written for n_written in range(n_new_tokens))",
        "return n_new_tokens * (2 * n_prompt_tokens + n_new_tokens - 1) / 2",
        "test_positions_run_are_a_whole_number",
        "positions are a whole number",
    ),
    (
        "requests that are a float",
        SIZES,
        "return max(0, int((memory_bytes - weight_bytes - reserved_bytes) // kv_bytes))",
        "return max(0, (memory_bytes - weight_bytes - reserved_bytes) // kv_bytes)",
        "test_max_concurrent_requests_are_a_whole_number",
        "requests are a whole number",
    ),
    (
        "a context that is a float",
        SIZES,
        "return max(0, int(free_bytes // (batch_size * kv_bytes_per_token)))",
        "return max(0, free_bytes // (batch_size * kv_bytes_per_token))",
        "test_max_context_is_a_whole_number",
        "tokens of context are a whole number",
    ),
    (
        "a latent vector counted twice",
        SIZES,
        "numbers = shape.latent.kv_latent_dim + shape.latent.rotary_dim",
        "numbers = 2 * (shape.latent.kv_latent_dim + shape.latent.rotary_dim)",
        "test_windowed_cache_bytes_of_a_mixture_with_latent_attention",
        "no factor 2 for the latent vector",
    ),
    (
        "a rotary key left out of the size",
        SIZES,
        "numbers = shape.latent.kv_latent_dim + shape.latent.rotary_dim",
        "numbers = shape.latent.kv_latent_dim",
        "test_kv_bytes_per_token_of_latent_attention_are_one_latent_and_one_rotary_key_a_layer",
        "the rotary key is left out",
    ),
    (
        "pairs cut alternately and joined as halves",
        ROPE,
        CUT,
        "a, b = x[..., 0::2], x[..., 1::2]",
        "test_apply_rope_turns_each_pair_as_complex_multiplication_does",
        "position 0 changed the order of the numbers: 2i and 2i + 1 were paired",
    ),
    (
        "pairs cut alternately and joined as halves, at position 0",
        ROPE,
        CUT,
        "a, b = x[..., 0::2], x[..., 1::2]",
        "test_apply_rope_leaves_position_zero_as_it_is",
        "position 0 changed the order of the numbers: 2i and 2i + 1 were paired",
    ),
    (
        "pairs cut as halves and joined alternately",
        ROPE,
        "return torch.cat([first, second], dim=-1)",
        "return torch.stack([first, second], dim=-1).flatten(-2)",
        "test_apply_rope_leaves_position_zero_as_it_is",
        "position 0 changed the order of the numbers: i and i + H/2 were paired",
    ),
    (
        "no logits of one dimension",
        TINY,
        "logits = np.array(rows).reshape(n_new_tokens, self.vocab_size)",
        "logits = np.array(rows)",
        "test_generate_of_no_token_is_no_pass",
        "no token: logits must have shape (0, V), not (0,)",
    ),
    (
        "logits in a list",
        TINY,
        "logits = np.array(rows).reshape(n_new_tokens, self.vocab_size)",
        "logits = rows",
        "test_generate_writes_the_text_of_the_sums_by_hand",
        "logits must be an array (n_new_tokens, V), not a list",
    ),
    (
        "counts of all calls",
        TINY,
        "self.work, text, rows = Work(), list(prompt), []",
        "text, rows = list(prompt), []",
        "test_generate_starts_anew_in_every_call",
        "the counts of earlier calls are in",
    ),
    (
        "the last token run as well",
        TINY,
        "        logits = np.array(rows).reshape",
        "        cache is not None and self.forward_step(text[-1], cache)\n        logits = np.array(rows).reshape",
        "test_generate_starts_anew_in_every_call",
        "passes, positions and projections are (7, 14, 28)",
    ),
]
MISTAKES = [
    {
        "name": f"newcomer, {name}",
        "week": 2,
        "file": file,
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, file, old, new, test, says in _MISTAKES
]
