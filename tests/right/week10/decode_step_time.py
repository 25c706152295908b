# %% the three times, its own refusals
def decode_step_time(batch_size, n_params, weight_bytes, kv_bytes, hardware):
    if batch_size < 1 or batch_size != int(batch_size):
        raise ValueError("batch_size must be a whole number above 0")
    if n_params <= 0:
        raise ValueError("n_params must be above 0")
    if weight_bytes <= 0:
        raise ValueError("weight_bytes must be above 0")
    if kv_bytes < 0:
        raise ValueError("kv_bytes must be 0 or more")
    weights = weight_bytes / hardware.bandwidth_bytes_per_second
    arithmetic = batch_size * 2 * n_params / hardware.peak_flops_per_second
    caches = batch_size * (kv_bytes / hardware.bandwidth_bytes_per_second)
    if arithmetic > weights:
        return arithmetic + caches
    return weights + caches


# %% as one sequence of a model with more parameters
def decode_step_time(batch_size, n_params, weight_bytes, kv_bytes, hardware):
    require_count(1, batch_size=batch_size)
    return decode_seconds_per_token(
        n_params=n_params * batch_size, weight_bytes=weight_bytes, hardware=hardware, kv_bytes=kv_bytes * batch_size
    )


# %% NumPy
import numpy as np


def decode_step_time(batch_size, n_params, weight_bytes, kv_bytes, hardware):
    require_count(1, batch_size=batch_size)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    rates = np.array([hardware.bandwidth_bytes_per_second, hardware.peak_flops_per_second])
    shared = (np.array([weight_bytes, 2.0 * n_params * batch_size]) / rates).max()
    return shared + np.float64(batch_size * kv_bytes) / rates[0]


# %% by the critical batch
def decode_step_time(batch_size, n_params, weight_bytes, kv_bytes, hardware):
    require_count(1, batch_size=batch_size)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    W, P = hardware.bandwidth_bytes_per_second, hardware.peak_flops_per_second
    critical = weight_bytes * P / (2 * n_params * W)
    return weight_bytes / W * max(1.0, batch_size / critical) + batch_size * kv_bytes / W


# %% sequence by sequence for small batches, with a helper of an engine's name
def require_count(size):
    if size < 1 or size % 1:
        raise ValueError("this is no batch_size")


def decode_step_time(batch_size, n_params, weight_bytes, kv_bytes, hardware):
    require_count(batch_size)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    caches = arithmetic = 0.0
    for _ in range(batch_size if batch_size < 5000 else 1):
        caches += kv_bytes / hardware.bandwidth_bytes_per_second
        arithmetic += 2 * n_params / hardware.peak_flops_per_second
    if batch_size >= 5000:
        caches, arithmetic = caches * batch_size, arithmetic * batch_size
    return caches + max(arithmetic, weight_bytes / hardware.bandwidth_bytes_per_second)
