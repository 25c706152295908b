# %% layer by layer
def windowed_cache_bytes(shape, n_tokens, windows, batch_size=1, kv_bits=16):
    if len(windows) != shape.n_layers:
        raise ValueError(f"windows: {len(windows)} for {shape.n_layers} layers")
    require_count(0, n_tokens=n_tokens)
    require_count(1, batch_size=batch_size)
    require_positive(kv_bits=kv_bits)
    layer = replace(shape, n_layers=1, experts=None)
    total = 0
    for window in windows:
        kept = n_tokens
        if window is not None:
            require_count(1, windows=window)
            kept = min(window, n_tokens)
        total += kv_cache_bytes(layer, kept, batch_size, kv_bits)
    return total


# %% positions of all layers first
def windowed_cache_bytes(shape, n_tokens, windows, batch_size=1, kv_bits=16):
    if len(windows) != shape.n_layers or any(w is not None and (w < 1 or w != int(w)) for w in windows):
        raise ValueError("windows must have one entry a layer, None or a whole number above 0")
    require_count(0, n_tokens=n_tokens)
    positions = sum(min(n_tokens, n_tokens if w is None else w) for w in windows)
    return kv_cache_bytes(replace(shape, n_layers=1, experts=None), positions, batch_size, kv_bits)


# %% numbers a position by hand
def windowed_cache_bytes(shape, n_tokens, windows, batch_size=1, kv_bits=16):
    if n_tokens < 0 or int(n_tokens) != n_tokens:
        raise ValueError(f"n_tokens is {n_tokens}")
    if batch_size < 1 or int(batch_size) != batch_size:
        raise ValueError(f"batch_size is {batch_size}")
    if kv_bits <= 0:
        raise ValueError(f"kv_bits is {kv_bits}")
    if len(windows) != shape.n_layers:
        raise ValueError("windows: one a layer")
    if shape.latent is None:
        numbers = 2 * shape.n_kv_heads * shape.head_dim
    else:
        numbers = shape.latent.kv_latent_dim + shape.latent.rotary_dim
    each, kept = math.ceil(numbers * kv_bits / 8), []
    for window in windows:
        if window is not None and (window < 1 or window != int(window)):
            raise ValueError(f"windows: {window}")
        kept.append(n_tokens if window is None or window > n_tokens else window)
    return batch_size * sum(kept) * each


# %% layers of one window together, recursion
def windowed_cache_bytes(shape, n_tokens, windows, batch_size=1, kv_bits=16):
    require_count(0, n_tokens=n_tokens)
    if len(windows) != shape.n_layers:
        raise ValueError(f"windows has {len(windows)} entries, not {shape.n_layers}")

    def rest(kinds):
        if not kinds:
            return 0
        window = kinds[0]
        if window is not None:
            require_count(1, windows=window)
        same = sum(1 for other in kinds if other == window)
        n = n_tokens if window is None else min(n_tokens, window)
        one = kv_cache_bytes(
            shape=replace(shape, n_layers=1, experts=None), n_tokens=n, batch_size=batch_size, kv_bits=kv_bits
        )
        return same * one + rest([other for other in kinds if other != window])

    return rest(list(windows))
