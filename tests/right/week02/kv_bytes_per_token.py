# %% two branches
def kv_bytes_per_token(shape, kv_bits=16):
    if kv_bits <= 0:
        raise ValueError("kv_bits must be positive")
    if shape.latent is None:
        bits = 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim * kv_bits
    else:
        bits = shape.n_layers * (shape.latent.kv_latent_dim + shape.latent.rotary_dim) * kv_bits
    return math.ceil(bits / 8)


# %% whole numbers by division upside down
def kv_bytes_per_token(shape, kv_bits=16):
    require_positive(kv_bits=kv_bits)
    if shape.latent:
        a_layer = shape.latent.kv_latent_dim + shape.latent.rotary_dim
    else:
        a_layer = shape.n_kv_heads * shape.head_dim + shape.n_kv_heads * shape.head_dim
    return int(-(-a_layer * shape.n_layers * kv_bits // 8))


# %% a sum over layers and heads, in bits
def kv_bytes_per_token(shape, kv_bits=16):
    require_positive(kv_bits=kv_bits)
    bits = 0
    for _ in range(shape.n_layers):
        if shape.latent is not None:
            bits += (shape.latent.kv_latent_dim + shape.latent.rotary_dim) * kv_bits
            continue
        for _ in range(shape.n_kv_heads):
            for _ in ("key", "value"):
                bits += shape.head_dim * kv_bits
    return math.ceil(bits / 8)


# %% numpy, and a number of numpy's
def kv_bytes_per_token(shape, kv_bits=16):
    if not kv_bits > 0:
        raise ValueError(f"kv_bits: {kv_bits}")
    latent = shape.latent
    numbers = (
        np.prod([2, shape.n_kv_heads, shape.head_dim]) if latent is None else latent.kv_latent_dim + latent.rotary_dim
    )
    return np.int64(np.ceil(numbers * shape.n_layers * kv_bits / 8))
