# %% an if in place of max
def prefill_seconds(n_prompt_tokens, n_params, weight_bytes, hardware):
    if n_prompt_tokens < 1 or n_prompt_tokens != int(n_prompt_tokens):
        raise ValueError("n_prompt_tokens must be a whole number above 0")
    if n_params <= 0 or weight_bytes <= 0:
        raise ValueError("n_params and weight_bytes must be above 0")
    reading = weight_bytes / hardware.bandwidth_bytes_per_second
    arithmetic = 2 * n_params * n_prompt_tokens / hardware.peak_flops_per_second
    if arithmetic > reading:
        return arithmetic
    return reading


# %% by the intensity
def prefill_seconds(n_prompt_tokens, n_params, weight_bytes, hardware):
    require_count(1, n_prompt_tokens=n_prompt_tokens)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    flops = 2 * n_params * n_prompt_tokens
    attained = min(hardware.peak_flops_per_second, flops / weight_bytes * hardware.bandwidth_bytes_per_second)
    return flops / attained


# %% NumPy
import numpy as np


def prefill_seconds(n_prompt_tokens, n_params, weight_bytes, hardware):
    require_count(1, n_prompt_tokens=n_prompt_tokens)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    return np.maximum(
        np.float64(weight_bytes) / hardware.bandwidth_bytes_per_second,
        np.float64(2 * n_params) * n_prompt_tokens / hardware.peak_flops_per_second,
    )


# %% sorted, with one position's time
def prefill_seconds(n_prompt_tokens, n_params, weight_bytes, hardware):
    require_count(1, n_prompt_tokens=n_prompt_tokens)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    one = 2 * n_params / hardware.peak_flops_per_second
    times = sorted([weight_bytes / hardware.bandwidth_bytes_per_second, n_prompt_tokens * one])
    print(times)
    return times[-1]


# %% a helper of the name of another exercise
def decode_seconds_per_token(flops, read, chip):
    return max(read / chip.bandwidth_bytes_per_second, flops / chip.peak_flops_per_second)


def prefill_seconds(n_prompt_tokens, n_params, weight_bytes, hardware):
    require_count(1, n_prompt_tokens=n_prompt_tokens)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    chip = hardware
    return max(
        weight_bytes / chip.bandwidth_bytes_per_second, 2 * n_params * n_prompt_tokens / chip.peak_flops_per_second
    )
