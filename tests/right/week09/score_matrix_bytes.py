# %% bits first, bytes in the end
def score_matrix_bytes(n_tokens, n_heads=1, batch_size=1, bits=16):
    require_count(1, n_tokens=n_tokens, n_heads=n_heads, batch_size=batch_size)
    require_positive(bits=bits)
    n_scores = n_tokens * n_tokens * n_heads * batch_size
    return -int(-n_scores * bits // 8)


# %% one matrix for each head of each sequence, counted in bits
def score_matrix_bytes(n_tokens, n_heads=1, batch_size=1, bits=16):
    for name, value in (("n_tokens", n_tokens), ("n_heads", n_heads), ("batch_size", batch_size)):
        if value < 1 or value != int(value):
            raise ValueError(f"{name} must be a whole number above 0, not {value}")
    if bits <= 0:
        raise ValueError(f"bits must be above 0, not {bits}")
    total = 0
    for _ in range(batch_size):
        for _ in range(n_heads):
            total += n_tokens**2 * bits
    return math.ceil(total / 8)


# %% whole bytes and a started one
def score_matrix_bytes(n_tokens, n_heads=1, batch_size=1, bits=16):
    require_count(1, n_tokens=n_tokens)
    require_count(1, n_heads=n_heads)
    require_count(1, batch_size=batch_size)
    require_positive(bits=bits)
    whole, rest = divmod(math.prod((n_tokens, n_tokens, n_heads, batch_size, bits)), 8)
    return int(whole) + bool(rest)


# %% numpy, and a number of numpy's
import numpy as np


def score_matrix_bytes(n_tokens, n_heads=1, batch_size=1, bits=16):
    require_count(1, n_tokens=n_tokens, n_heads=n_heads, batch_size=batch_size)
    require_positive(bits=bits)
    return np.int64(np.ceil(np.square(float(n_tokens)) * n_heads * batch_size * bits / 8))
