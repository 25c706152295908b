"""Week 9, what wrong answers to latent attention got full points for, or were told wrongly."""

COUNTS = "test_latent_multiplications_of_a_decode_step_and_a_prompt"
SQUARE = "test_naive_attention_turns_no_matrix_round"
FORMULAS = "test_forward_of_latent_attention_equals_the_formulas"
SHARED = "test_forward_of_latent_attention_caches_what_all_heads_share"
KEYS = "apply_rope(rotary_keys[:, None], offset, self.theta)[:, 0]"
KEYS_BEHIND = "apply_rope(rotary_keys[:, :, None], offset, self.theta)[:, :, 0]"
MULTIPLIED = "return S * up + T * S * (head_dim + R + U), T * up + T * S * (2 * C + R)"
SCALED = "return latent_softmax(scores, q.shape[-1] + q_rotary.shape[-1], mask) @ values"
OTHERWISE = "wrong with a mask (if it is wrong without one too, mend that first)"

# (name, file, old, new, test, what its message says)
_MISTAKES = [
    (
        "theta of neither queries nor keys",
        "layer",
        "        if self.absorbs(T, cache):\n",
        "        q_rotary = self.q(x).view(B, T, self.n_heads, H + R).transpose(1, 2)[..., H:]\n"
        "        q_rotary = apply_rope(q_rotary, offset)\n"
        "        rotary_keys = apply_rope(self.down(x)[:, None, :, -R:], offset)[:, 0]\n"
        "        if self.absorbs(T, cache):\n",
        "test_forward_of_latent_attention_turns_by_the_model_s_theta",
        "theta: rotate by self.theta",
    ),
    (
        "theta of the queries",
        "layer",
        "apply_rope(q_rotary, offset, self.theta)",
        "apply_rope(q_rotary, offset)",
        "test_forward_of_latent_attention_turns_by_the_model_s_theta",
        "theta of the queries",
    ),
    (
        "theta of the keys",
        "layer",
        KEYS,
        KEYS.replace(", self.theta", ""),
        "test_forward_of_latent_attention_turns_by_the_model_s_theta",
        "theta of the rotary keys",
    ),
    (
        "heads before positions in one view",
        "layer",
        ".view(B, T, self.n_heads, H + R).transpose(1, 2)",
        ".view(B, self.n_heads, T, H + R)",
        FORMULAS,
        "view(B, N, T, H + R) mixes positions and heads",
    ),
    ("the head dimension behind T", "layer", KEYS, KEYS_BEHIND, FORMULAS, "put the head dimension before T"),
    (
        "the head dimension of queries behind T",
        "layer",
        "apply_rope(q_rotary, offset, self.theta)",
        "apply_rope(q_rotary.transpose(1, 2), offset, self.theta).transpose(1, 2)",
        FORMULAS,
        "the queries' heads were turned by their number",
    ),
    ("the head dimension behind T, cached", "layer", KEYS, KEYS_BEHIND, SHARED, "put the head dimension before T"),
    (
        "a layer that advances",
        "layer",
        "        return self.out(mixed",
        "        cache and cache.advance(T)\n        return self.out(mixed",
        FORMULAS,
        "the length was advanced inside a layer",
    ),
    (
        "naive and absorbed swapped",
        "attention",
        MULTIPLIED,
        "return T * up + T * S * (2 * C + R), S * up + T * S * (head_dim + R + U)",
        COUNTS,
        "naive and absorbed are swapped",
    ),
    (
        "no meeting with S positions, naive",
        "attention",
        MULTIPLIED,
        "return S * up, T * up + T * S * (2 * C + R)",
        COUNTS,
        "naive: the queries' meeting with S positions is missing",
    ),
    (
        "no meeting with S positions, absorbed",
        "attention",
        MULTIPLIED,
        "return S * up + T * S * (head_dim + R + U), T * up",
        COUNTS,
        "absorbed: the queries' meeting with S positions is missing",
    ),
    ("no U anywhere", "attention", "up = C * (head_dim + U)", "U = 0; up = C * head_dim", COUNTS, "U is missing"),
    (
        "no U for what a query meets",
        "attention",
        MULTIPLIED,
        MULTIPLIED.replace("head_dim + R + U", "head_dim + R"),
        COUNTS,
        "U is missing, or H: a query meets",
    ),
    (
        "another scale, with a mask",
        "attention",
        SCALED,
        SCALED.replace(" + q_rotary.shape[-1]", ""),
        "test_naive_attention_takes_a_mask",
        OTHERWISE,
    ),
    (
        "a mask unheard",
        "attention",
        SCALED,
        SCALED.replace(", mask)", ")"),
        "test_naive_attention_takes_a_mask",
        "mask was not used",
    ),
    (
        "a key matrix turned round",
        "attention",
        'keys = torch.einsum("nhc,bsc->bnsh", up_keys, latents)',
        'keys = torch.einsum("nch,bsc->bnsh", up_keys, latents)',
        SQUARE,
        "the key is up_keys[n] · c; you multiplied with its transpose",
    ),
    (
        "nothing handed to attend",
        "attention",
        "**masked, scale=1 / math.sqrt(q.shape[-1] + q_rotary.shape[-1]))",
        "**masked)",
        "test_absorbed_attention_hands_over_a_mask_where_it_has_one",
        "attend was given nothing",
    ),
    (
        "a value as long as a key",
        "attention",
        "    up = C * (head_dim + U)\n",
        "    U = head_dim\n    up = C * (head_dim + U)\n",
        "test_latent_multiplications_where_keys_and_values_differ_in_length",
        "H is taken for U, or U for H",
    ),
    (
        "a key as long as a value",
        "attention",
        "    up = C * (head_dim + U)\n",
        "    head_dim = U\n    up = C * (head_dim + U)\n",
        "test_latent_multiplications_where_keys_and_values_differ_in_length",
        "H is taken for U, or U for H",
    ),
    (
        "more queries than positions refused",
        "attention",
        "    require_count(1, T=T, S=S)\n",
        '    require_count(1, T=T, S=S)\n    if T > S:\n        raise ValueError(f"T is {T}; at most S")\n',
        "test_latent_multiplications_of_more_queries_than_positions",
        "only what is no whole number",
    ),
    (
        "counts made floats",
        "attention",
        "return S * up + T * S * (head_dim + R + U), T * up + T * S * (2 * C + R)",
        "return float(S * up + T * S * (head_dim + R + U)), float(T * up + T * S * (2 * C + R))",
        "test_latent_multiplications_where_keys_and_values_differ_in_length",
        "are whole numbers",
    ),
    (
        "the length advanced in the last layer",
        "cache",
        "        return self.latents[layer][:, :end], self",
        (
            "        if layer == len(self.keys) - 1:\n            self.length = end\n"
            "        return self.latents[layer][:, :end], self"
        ),
        "test_update_of_a_latent_cache_leaves_the_length_alone_in_every_layer",
        "the length was advanced in layer 2",
    ),
    (
        "a new tensor in the place of the cached latents",
        "cache",
        "        self.latents[layer][:, self.length : end] = latents.detach()\n",
        (
            "        self.latents[layer] = self.latents[layer].clone()\n"
            "        self.latents[layer][:, self.length : end] = latents.detach()\n"
        ),
        "test_update_of_a_latent_cache_writes_where_attention_reads",
        "are views of it",
    ),
    (
        "latents cached with their gradient",
        "cache",
        "= latents.detach()",
        "= latents",
        "test_update_of_a_latent_cache_keeps_no_gradient",
        "a gradient flows into the cache",
    ),
    (
        "rotary keys cached with their gradient",
        "cache",
        "= rotary_keys.detach()",
        "= rotary_keys",
        "test_update_of_a_latent_cache_keeps_no_gradient",
        "a gradient flows into the cache",
    ),
    (
        "the length of the vectors not looked at",
        "cache",
        "            if new.shape != (B, end - self.length, width):",
        "            if new.shape[:2] != (B, end - self.length):",
        "test_update_of_a_latent_cache_refuses_vectors_of_another_length",
        "is impossible because of latents",
    ),
]
MISTAKES = [
    {
        "name": f"latent, {name}",
        "week": 9,
        "file": f"mla/{file}.py",
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, file, old, new, test, says in _MISTAKES
]
