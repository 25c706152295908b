# %% an if in place of max
def decode_seconds_per_token(n_params, weight_bytes, hardware, kv_bytes=0):
    if n_params <= 0:
        raise ValueError("n_params must be above 0")
    if weight_bytes <= 0:
        raise ValueError("weight_bytes must be above 0")
    if kv_bytes < 0:
        raise ValueError("kv_bytes must be 0 or more")
    reading = weight_bytes / hardware.bandwidth_bytes_per_second
    arithmetic = 2 * n_params / hardware.peak_flops_per_second
    seconds = reading if reading > arithmetic else arithmetic
    return seconds + kv_bytes / hardware.bandwidth_bytes_per_second


# %% by the bottleneck
def decode_seconds_per_token(n_params, weight_bytes, hardware, kv_bytes=0):
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    intensity = 2 * n_params / weight_bytes
    if intensity < ridge_point(hardware):
        return (weight_bytes + kv_bytes) / hardware.bandwidth_bytes_per_second
    return 2 * n_params / hardware.peak_flops_per_second + kv_bytes / hardware.bandwidth_bytes_per_second


# %% NumPy
import numpy as np


def decode_seconds_per_token(n_params, weight_bytes, hardware, kv_bytes=0):
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    rates = np.array([hardware.bandwidth_bytes_per_second, hardware.peak_flops_per_second])
    return np.max(np.array([weight_bytes, 2 * n_params]) / rates) + np.float64(kv_bytes) / rates[0]


# %% torch
import torch


def decode_seconds_per_token(n_params, weight_bytes, hardware, kv_bytes=0.0):
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    work = torch.tensor([weight_bytes, 2 * n_params], dtype=torch.float64)
    work /= torch.tensor([hardware.bandwidth_bytes_per_second, hardware.peak_flops_per_second], dtype=torch.float64)
    return work.amax().item() + kv_bytes / hardware.bandwidth_bytes_per_second


# %% the excess of arithmetic over reading on top
def decode_seconds_per_token(n_params, weight_bytes, hardware, kv_bytes=0):
    require_positive(weight_bytes=weight_bytes, n_params=n_params)
    require_not_negative(kv_bytes=kv_bytes)
    all_reading = (weight_bytes + kv_bytes) / hardware.bandwidth_bytes_per_second
    excess = n_params * 2 / hardware.peak_flops_per_second - weight_bytes / hardware.bandwidth_bytes_per_second
    return all_reading + max(0.0, excess)
