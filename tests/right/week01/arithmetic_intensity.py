# %% operations over bytes, its own refusals
def arithmetic_intensity(n_tokens, n_params, weight_bytes, kv_bytes=0):
    if n_tokens < 1 or n_tokens != int(n_tokens):
        raise ValueError("n_tokens must be a whole number above 0")
    for name, value in (("n_params", n_params), ("weight_bytes", weight_bytes)):
        if value <= 0:
            raise ValueError(name + " must be above 0")
    if kv_bytes < 0:
        raise ValueError("kv_bytes must not be below 0")
    operations = 2 * n_params * n_tokens
    bytes_read = weight_bytes + kv_bytes
    return operations / bytes_read


# %% from bytes a position
def arithmetic_intensity(n_tokens, n_params, weight_bytes, kv_bytes=0):
    require_count(1, n_tokens=n_tokens)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    return n_params / ((weight_bytes / n_tokens + kv_bytes / n_tokens) / 2)


# %% torch inside
def arithmetic_intensity(n_tokens, n_params, weight_bytes, kv_bytes=0.0):
    import torch

    require_count(1, n_tokens=n_tokens)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    read = torch.tensor([weight_bytes, kv_bytes], dtype=torch.float64).sum()
    return (torch.tensor(2.0 * n_params * n_tokens, dtype=torch.float64) / read).item()


# %% NumPy, one refusal for all
import numpy as np


def arithmetic_intensity(n_tokens, n_params, weight_bytes, kv_bytes=0):
    given = {"n_tokens": n_tokens, "n_params": n_params, "weight_bytes": weight_bytes}
    bad = [name for name, value in given.items() if not value > 0]
    if n_tokens % 1 != 0:
        bad.append("n_tokens")
    if kv_bytes < 0:
        bad.append("kv_bytes")
    if bad:
        raise ValueError("not allowed: " + ", ".join(bad))
    return np.float64(2 * n_params * n_tokens) / np.sum([weight_bytes, kv_bytes])


# %% the harmonic sum of both intensities
def arithmetic_intensity(n_tokens, n_params, weight_bytes, kv_bytes=0):
    require_count(1, n_tokens=n_tokens)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    flops = 2.0 * n_params * n_tokens
    return 1 / (weight_bytes / flops + kv_bytes / flops)
