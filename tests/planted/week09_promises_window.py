"""Week 9, windows, rings and their bytes: one mistake for each promise that no other mistake breaks."""

KEPT = "n_kept = [n_tokens if window is None else min(n_tokens, window) for window in windows]"
SUM = "return sum(kv_cache_bytes(one_layer, n, batch_size, kv_bits) for n in n_kept)"
WINDOWS = "test_windowed_cache_bytes_refuse_what_is_no_window"
AT_WINDOW = "test_windowed_cache_bytes_stop_growing_at_the_window"

# (name, file, old, new, test, what its message says)
_MISTAKES = [
    (
        "a mask of any window",
        "window/masks.py",
        "    require_count(1, window=window)\n",
        "",
        "test_sliding_window_mask_refuses_what_is_no_window",
        "because of window",
    ),
    (
        "one layer for all",
        "budget/cache_sizes.py",
        SUM,
        SUM.replace("n_kept)", "n_kept[:1])"),
        AT_WINDOW,
        "layers forgotten",
    ),
    (
        "all layers for each",
        "budget/cache_sizes.py",
        "one_layer = replace(shape, n_layers=1, experts=None)\n    n_kept",
        "one_layer = shape\n    n_kept",
        AT_WINDOW,
        "the bytes of all layers were counted once for each",
    ),
    (
        "nothing kept without a window",
        "budget/cache_sizes.py",
        KEPT,
        KEPT.replace("n_tokens if window is None", "0 if window is None"),
        "test_windowed_cache_bytes_of_a_hybrid_add_up_layer_by_layer",
        "None keeps the whole text",
    ),
    (
        "windows of any number of layers",
        "budget/cache_sizes.py",
        "    if len(windows) != shape.n_layers:\n",
        "    if False:\n",
        WINDOWS,
        "because of windows",
    ),
    (
        "a window of nothing",
        "budget/cache_sizes.py",
        "            require_count(1, windows=window)\n",
        "            pass\n",
        WINDOWS,
        "because of windows",
    ),
    (
        "a ring that advances",
        "window/ring.py",
        "        keys, values = self.keys[layer], self.values[layer]\n        k, v = k.detach()",
        "        self.length += T\n"
        "        keys, values = self.keys[layer], self.values[layer]\n        k, v = k.detach()",
        "test_update_of_a_ring_touches_one_layer_and_no_length",
        "the length was advanced inside a layer",
    ),
    (
        "a ring one place on",
        "window/ring.py",
        "place = self.length % self.window\n",
        "place = (self.length + 1) % self.window\n",
        "test_update_of_a_ring_puts_each_position_at_its_place",
        "position p belongs to place p % window",
    ),
    (
        "a ring for any heads",
        "window/ring.py",
        "T = self._new_positions(k, v)",
        "T = k.shape[2]",
        "test_update_of_a_ring_refuses_what_does_not_fit",
        "because of k",
    ),
    (
        "a ring in the last layer",
        "window/ring.py",
        "keys, values = self.keys[layer], self.values[layer]\n        k, v",
        "keys, values = self.keys[-1], self.values[-1]\n        k, v",
        "test_update_of_a_ring_touches_one_layer_and_no_length",
        "not to the last layer's ring",
    ),
    (
        "one new position answered in the order of the text",
        "window/ring.py",
        "            return keys[:, :, : self.length + 1], values[:, :, : self.length + 1]",
        (
            "            order = torch.arange(max(0, self.length + 1 - self.window), self.length + 1) % "
            "self.window\n            return keys[:, :, order], values[:, :, order]"
        ),
        "test_update_of_a_ring_returns_one_position_in_the_order_of_the_ring",
        "the order of the text",
    ),
    (
        "a ring that keeps gradients",
        "window/ring.py",
        "k.detach().to(keys.dtype), v.detach().to(keys.dtype)",
        "k.to(keys.dtype), v.to(keys.dtype)",
        "test_update_of_a_ring_keeps_no_gradient",
        "a gradient flows into the ring",
    ),
]
MISTAKES = [
    {"name": f"promise, {name}", "week": 9, "file": file, "old": old, "new": new, "test": test, "says": says}
    for name, file, old, new, test, says in _MISTAKES
]
