"""Week 2, the decoder in NumPy."""

FILE = "model/tiny_decoder.py"
STEP = "test_forward_step_equals_the_last_row_of_a_full_pass"
STEP_SEES = "causal_attention(q, cache.keys[layer, :S], cache.values[layer, :S])"
STEP_WRITES = "cache.keys[layer, cache.length], cache.values[layer, cache.length] = k[0], v[0]"

# (name, old, new, test, what its message says)
_MISTAKES = [
    (
        "no mask",
        "np.tri(T, S, S - T, dtype=bool)",
        "np.tri(T, S, S, dtype=bool)",
        "test_causal_attention_equals_one_softmax_for_each_query",
        "must not see the ones after it",
    ),
    (
        "mask aligned top-left",
        "np.tri(T, S, S - T, dtype=bool)",
        "np.tri(T, S, dtype=bool)",
        "test_causal_attention_equals_one_softmax_for_each_query",
        "aligned top-left",
    ),
    (
        "scale forgotten",
        "scores = q @ k.T / np.sqrt(q.shape[1])  # (T, S)",
        "scores = q @ k.T",
        "test_causal_attention_equals_one_softmax_for_each_query",
        "not divided by √D",
    ),
    (
        "weights do not add up to 1",
        "return weights / weights.sum(axis=1, keepdims=True) @ v",
        "return weights @ v",
        "test_causal_attention_equals_one_softmax_for_each_query",
        "the weights do not add up to 1",
    ),
    (
        "largest score not subtracted",
        "np.exp(scores - scores.max(axis=1, keepdims=True))",
        "np.exp(scores)",
        "test_causal_attention_does_not_overflow_on_large_scores",
        "overflow",
    ),
    (
        "full pass: stream replaced",
        "x = x + causal_attention(q, k, v) @ self.wo[layer]",
        "x = causal_attention(q, k, v) @ self.wo[layer]",
        "test_forward_full_equals_the_sums_by_hand",
        "a layer adds to the vectors",
    ),
    (
        "prefill: cache not advanced",
        "            cache.length = len(x)\n",
        "            pass\n",
        "test_forward_full_with_a_cache_gives_the_same_logits_and_fills_it",
        "cache not advanced",
    ),
    (
        "prefill: cache advanced in every layer",
        "            cache.length = len(x)\n",
        "            cache.length += len(x) * self.n_layers\n",
        "test_forward_full_with_a_cache_gives_the_same_logits_and_fills_it",
        "advanced in every layer",
    ),
    (
        "prefill: keys and values swapped",
        "cache.values[layer, : len(x)] = k, v",
        "cache.values[layer, : len(x)] = v, k",
        "test_forward_full_with_a_cache_gives_the_same_logits_and_fills_it",
        "swapped",
    ),
    (
        "one array for keys and values",
        "return TinyCache(np.zeros(shape), np.zeros(shape))",
        "return TinyCache(*[np.zeros(shape)] * 2)",
        "test_new_cache_shares_nothing_with_another",
        "one array",
    ),
    (
        "new_cache hands out the same cache",
        "        return TinyCache(np.zeros(shape), np.zeros(shape))\n",
        "        if not hasattr(self, '_cache'):\n"
        "            self._cache = TinyCache(np.zeros(shape), np.zeros(shape))\n"
        "        return self._cache\n",
        "test_new_cache_shares_nothing_with_another",
        "cache shared between calls",
    ),
    (
        "step: offset forgotten",
        "self.embed([token], cache.length)",
        "self.embed([token], 0)",
        STEP,
        "position offset forgotten: the new token was run as position 0",
    ),
    (
        "step: offset one too early",
        "self.embed([token], cache.length)",
        "self.embed([token], cache.length - 1)",
        STEP,
        "one position too early",
    ),
    (
        "step: current token left out",
        STEP_SEES,
        "causal_attention(q, cache.keys[layer, : S - 1], cache.values[layer, : S - 1])",
        STEP,
        "current token left out",
    ),
    ("step: past left out", STEP_SEES, "causal_attention(q, k, v)", STEP, "the past is left out"),
    (
        "step: empty places seen",
        STEP_SEES,
        "causal_attention(q, cache.keys[layer], cache.values[layer])",
        "test_forward_step_does_not_see_the_empty_places_of_the_cache",
        "empty places of the cache take part",
    ),
    (
        "step: cache not advanced",
        "        cache.length = S\n",
        "",
        "test_forward_step_advances_the_cache_by_the_one_position",
        "cache not advanced",
    ),
    (
        "step: cache advanced in every layer",
        "        cache.length = S\n",
        "        cache.length += self.n_layers\n",
        "test_forward_step_advances_the_cache_by_the_one_position",
        "advanced in every layer",
    ),
    (
        "step: every layer in the last layer's cache",
        STEP_WRITES,
        "cache.keys[-1, cache.length], cache.values[-1, cache.length] = k[0], v[0]",
        "test_forward_step_writes_one_key_and_value_in_each_layer",
        "every layer writes to the last layer's cache",
    ),
    (
        "generate: cache ignored",
        "cache = self.new_cache() if use_cache else None",
        "cache = None",
        "test_generate_runs_the_prompt_once_with_a_cache_and_in_every_pass_without",
        "use_cache=True was ignored",
    ),
    (
        "generate: cache always used",
        "cache = self.new_cache() if use_cache else None",
        "cache = self.new_cache()",
        "test_generate_runs_the_prompt_once_with_a_cache_and_in_every_pass_without",
        "use_cache=False was ignored",
    ),
    (
        "generate: counts never set back",
        "self.work, text, rows = Work(), list(prompt), []",
        "text, rows = list(prompt), []",
        "test_generate_starts_anew_in_every_call",
        "counts of earlier calls",
    ),
    (
        "generate: cache shared between calls",
        "        cache = self.new_cache() if use_cache else None\n",
        "        if not hasattr(self, '_cache'):\n"
        "            self._cache = self.new_cache()\n"
        "        cache = self._cache if use_cache else None\n",
        "test_generate_starts_anew_in_every_call",
        "cache shared between calls",
    ),
    (
        "generate: last token run",
        "        logits = np.array(rows).reshape(n_new_tokens, self.vocab_size)\n",
        "        if use_cache and rows:\n"
        "            self.forward_step(text[-1], cache)\n"
        "        logits = np.array(rows).reshape(n_new_tokens, self.vocab_size)\n",
        "test_generate_runs_the_prompt_once_with_a_cache_and_in_every_pass_without",
        "the last token is written, never run",
    ),
    (
        "generate: prompt returned",
        "return Generation(text[len(prompt) :], logits",
        "return Generation(text, logits",
        "test_generate_writes_the_text_of_the_sums_by_hand",
        "prompt returned",
    ),
    (
        "generate: prompt changed",
        "Work(), list(prompt), []",
        "Work(), prompt, []",
        "test_generate_writes_the_text_of_the_sums_by_hand",
        "changed its argument prompt",
    ),
    (
        "a token outside the vocabulary wraps around",
        "self.embed([token], cache.length)",
        "self.embed([token % self.vocab_size], cache.length)",
        "test_forward_step_refuses_a_token_outside_the_vocabulary",
        "and no ValueError came",
    ),
]
MISTAKES = [
    {"name": f"tiny decoder, {name}", "week": 2, "file": FILE, "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _MISTAKES
]
