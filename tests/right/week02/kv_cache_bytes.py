# %% a product in another order
def kv_cache_bytes(shape, n_tokens, batch_size=1, kv_bits=16):
    require_count(0, n_tokens=n_tokens)
    require_count(1, batch_size=batch_size)
    require_positive(kv_bits=kv_bits)
    per_sequence = kv_bytes_per_token(shape, kv_bits=kv_bits) * n_tokens
    return per_sequence * batch_size


# %% the bytes worked out anew
def kv_cache_bytes(shape, n_tokens, batch_size=1, kv_bits=16):
    if n_tokens < 0 or int(n_tokens) != n_tokens:
        raise ValueError("n_tokens")
    if batch_size < 1 or int(batch_size) != batch_size:
        raise ValueError("batch_size")
    if kv_bits <= 0:
        raise ValueError("kv_bits")
    if shape.latent is None:
        numbers = 2 * shape.n_kv_heads * shape.head_dim
    else:
        numbers = shape.latent.kv_latent_dim + shape.latent.rotary_dim
    return math.ceil(shape.n_layers * numbers * kv_bits / 8) * n_tokens * batch_size


# %% an early return for no tokens
def kv_cache_bytes(shape, n_tokens, batch_size=1, kv_bits=16):
    require_count(0, n_tokens=n_tokens)
    require_count(1, batch_size=batch_size)
    each = kv_bytes_per_token(shape, kv_bits)
    if n_tokens == 0:
        return 0
    return sum(n_tokens * each for _ in range(batch_size))


# %% a number of numpy's
def kv_cache_bytes(shape, n_tokens, batch_size=1, kv_bits=16):
    require_count(0, n_tokens=n_tokens)
    require_count(1, batch_size=batch_size)
    return np.prod([batch_size, n_tokens, kv_bytes_per_token(shape, kv_bits)], dtype=np.int64)
