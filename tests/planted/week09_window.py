"""Week 9, what wrong answers to windows and rings got full points for, or were told wrongly."""

KEPT = (
    "keys[:, :, kept], values[:, :, kept] = k[:, :, -n_kept:], v[:, :, -n_kept:]",
    "kept = torch.arange(self.length, end) % self.window\n        keys[:, :, kept], values[:, :, kept] = k, v",
)
MASK = "torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T).triu(S - T - window + 1)"
FIVE = "test_sliding_window_mask_of_five_positions"
ANY = "test_sliding_window_mask_shows_the_last_keys_up_to_the_query_s_own"
WHOLE = "test_sliding_window_mask_as_large_as_the_text_is_causal"
NO_CAUSAL = MASK.replace(".tril(S - T)", "")

# (name, file, old, new, test, what its message says)
_MISTAKES = [
    (
        "more positions than places in one assignment",
        "ring",
        *KEPT,
        "test_update_of_a_ring_writes_no_place_twice_in_one_assignment",
        "write the last 4 alone",
    ),
    (
        "nobody notes how far a layer has written",
        "ring",
        "        self._written[layer] = self.length + T\n",
        "",
        "test_update_of_a_ring_notes_how_far_a_layer_has_written",
        "not 9, where the newest position written ends",
    ),
    (
        "a past overwritten and not missed",
        "ring",
        "        self._need_past(self.length, self._written[layer])\n",
        "",
        "test_update_of_a_ring_refuses_a_past_that_was_overwritten",
        "positions never counted have overwritten 3 and 4",
    ),
    (
        "a mask on the usual device",
        "masks",
        ", device=device)",
        ")",
        "test_sliding_window_mask_lies_on_the_device_that_is_asked_for",
        "`device` was not used",
    ),
    ("no causal part, five positions", "masks", MASK, NO_CAUSAL, FIVE, "no causal mask"),
    ("no causal part, any sizes", "masks", MASK, NO_CAUSAL, ANY, "no causal mask"),
    ("no causal part, the whole text", "masks", MASK, NO_CAUSAL, WHOLE, "no causal mask"),
    ("True for what is hidden, five positions", "masks", MASK, f"~{MASK}", FIVE, "True and False are exchanged"),
    ("True for what is hidden, any sizes", "masks", MASK, f"~{MASK}", ANY, "True and False are exchanged"),
    ("True for what is hidden, the whole text", "masks", MASK, f"~{MASK}", WHOLE, "True and False are exchanged"),
]
MISTAKES = [
    {
        "name": f"window, {name}",
        "week": 9,
        "file": f"window/{file}.py",
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, file, old, new, test, says in _MISTAKES
] + [
    {
        "name": f"window, bytes with {name}",
        "week": 9,
        "file": "budget/cache_sizes.py",
        "old": "return sum(kv_cache_bytes(one_layer, n, batch_size, kv_bits) for n in n_kept)",
        "new": f"return sum(kv_cache_bytes(one_layer, n{arguments}) for n in n_kept)",
        "test": "test_windowed_cache_bytes_of_a_hybrid_add_up_layer_by_layer",
        "says": says,
    }
    for name, arguments, says in (
        ("no batch", ", 1, kv_bits", "batch forgotten"),
        ("no bits", ", batch_size", "kv_bits forgotten"),
    )
]
