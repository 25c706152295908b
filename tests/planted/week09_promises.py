"""Week 9, latent attention: one mistake for each promise that no other mistake breaks."""

NAIVE = "return latent_softmax(scores, q.shape[-1] + q_rotary.shape[-1], mask) @ values"
NAIVE_SCORES = "scores = q @ keys.transpose(-1, -2) + q_rotary @ rotary_keys[:, None].transpose(-1, -2)  # (B, N, T, S)"
DEFINITION = "test_naive_attention_equals_the_definition"
ABSORBED = 'return torch.einsum("bntc,nuc->bntu", mixed, up_values)'
FORMULAS = "test_forward_of_latent_attention_equals_the_formulas"
COUNTS = "test_latent_multiplications_of_a_decode_step_and_a_prompt"
CACHED = "test_update_of_a_latent_cache_returns_the_past_and_the_new_positions"
CACHE_FITS = "test_update_of_a_latent_cache_refuses_what_does_not_fit"
BACK = "return self.latents[layer][:, :end], self.rotary_keys[layer][:, :end]"

# (name, file, old, new, test, what its message says)
_MISTAKES = [
    (
        "scores without the rotary part",
        "mla/attention.py",
        NAIVE_SCORES,
        "scores = q @ keys.transpose(-1, -2)",
        DEFINITION,
        "the rotary part of the score is left out",
    ),
    (
        "no scale",
        "mla/attention.py",
        NAIVE,
        NAIVE.replace("q.shape[-1] + q_rotary.shape[-1]", "1"),
        DEFINITION,
        "the scale is forgotten",
    ),
    (
        "no mask where none is given",
        "mla/attention.py",
        NAIVE,
        "sees = torch.ones(scores.shape[-2:], dtype=torch.bool) if mask is None else mask\n    "
        + NAIVE.replace("mask)", "sees)"),
        DEFINITION,
        "no mask: a position looks at the future",
    ),
    (
        "a mask aligned top-left",
        "mla/attention.py",
        NAIVE,
        "sees = torch.ones(scores.shape[-2:], dtype=torch.bool).tril() if mask is None else mask\n    "
        + NAIVE.replace("mask)", "sees)"),
        DEFINITION,
        "aligned top-left",
    ),
    (
        "a mask turned round",
        "mla/attention.py",
        NAIVE,
        NAIVE.replace("mask)", "None if mask is None else ~mask)"),
        "test_naive_attention_takes_a_mask",
        "the mask is turned round",
    ),
    (
        "values turned round",
        "mla/attention.py",
        'values = torch.einsum("nuc,bsc->bnsu", up_values, latents)',
        'values = torch.einsum("ncu,bsc->bnsu", up_values, latents)',
        "test_naive_attention_turns_no_matrix_round",
        "up_values is transposed",
    ),
    (
        "values of all positions after all",
        "mla/attention.py",
        ABSORBED,
        'torch.einsum("nuc,bsc->bnsu", up_values, latents)\n    ' + ABSORBED,
        "test_absorbed_attention_makes_no_keys_or_values_of_all_heads",
        "which absorbing avoids",
    ),
    (
        "rotary numbers first in the queries",
        "mla/attention.py",
        'queries = torch.cat([torch.einsum("bnth,nhc->bntc", q, up_keys), q_rotary], dim=-1)',
        'queries = torch.cat([q_rotary, torch.einsum("bnth,nhc->bntc", q, up_keys)], dim=-1)',
        "test_absorbed_attention_hands_over_queries_of_latent_length_and_their_rotary_part",
        "rotary numbers come first in the queries",
    ),
    (
        "no C for the mixture",
        "mla/attention.py",
        "(2 * C + R)",
        "(C + R)",
        COUNTS,
        "C is missing for the mixture",
    ),
    (
        "half of a causal matrix",
        "mla/attention.py",
        "return S * up + T * S * (head_dim + R + U), T",
        "return S * up + (T * S - T * (T - 1) // 2) * (head_dim + R + U), T",
        COUNTS,
        "what a mask hides is computed too",
    ),
    (
        "no query at all",
        "mla/attention.py",
        "    require_count(1, T=T, S=S)\n",
        "",
        "test_latent_multiplications_refuse_what_is_no_count",
        "because of T",
    ),
    ("only new latents", "mla/cache.py", BACK, "return latents, rotary_keys", CACHED, "only the new latents came back"),
    (
        "views exchanged for tensors of their own",
        "mla/cache.py",
        "self.latents[layer][:, self.length : end] = latents.detach()",
        "self.latents[layer] = self.latents[layer].clone()\n"
        "        self.latents[layer][:, self.length : end] = latents.detach()",
        CACHED,
        "which are views of them",
    ),
    (
        "all the capacity",
        "mla/cache.py",
        BACK,
        "return self.latents[layer], self.rotary_keys[layer]",
        CACHED,
        "the whole capacity of latents came back",
    ),
    (
        "rotary keys first",
        "mla/cache.py",
        BACK,
        "return self.rotary_keys[layer][:, :end], self.latents[layer][:, :end]",
        CACHED,
        "latents and rotary keys are swapped",
    ),
    ("advanced", "mla/cache.py", BACK, f"self.length = end; {BACK}", CACHED, "advanced inside a layer"),
    (
        "a copy of the latents",
        "mla/cache.py",
        BACK,
        "return self.latents[layer][:, :end].clone(), self.rotary_keys[layer][:, :end]",
        CACHED,
        "the cache was copied",
    ),
    (
        "no room asked for",
        "mla/cache.py",
        "        self._need_room(end)\n        self.latents",
        "        self.latents",
        CACHE_FITS,
        "5 positions do not fit into a capacity of 4",
    ),
    (
        "any shape taken",
        "mla/cache.py",
        "if new.shape != (B, end - self.length, width):",
        "if False:",
        CACHE_FITS,
        "because of latents",
    ),
    (
        "heads not side by side",
        "mla/layer.py",
        "return self.out(mixed.transpose(1, 2).reshape(B, T, -1))",
        "return self.out(mixed.reshape(B, T, -1))",
        FORMULAS,
        "the heads were not put side by side",
    ),
    (
        "nothing seen without a cache",
        "mla/layer.py",
        "        if self.absorbs(T, cache):\n",
        "        if cache is None:\n            return 0 * x\n        if self.absorbs(T, cache):\n",
        "test_forward_of_latent_attention_without_a_cache",
        "without a cache the positions see each other alone",
    ),
]
MISTAKES = [
    {"name": f"promise, {name}", "week": 9, "file": file, "old": old, "new": new, "test": test, "says": says}
    for name, file, old, new, test, says in _MISTAKES
]
