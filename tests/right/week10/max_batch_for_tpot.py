# %% counting up
def max_batch_for_tpot(tpot_seconds, n_params, weight_bytes, kv_bytes, hardware):
    require_positive(tpot_seconds=tpot_seconds, n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    batch = 0
    while decode_step_time(batch + 1, n_params, weight_bytes, kv_bytes, hardware) <= tpot_seconds:
        batch += 1
    return batch


# %% doubling, then halving
def max_batch_for_tpot(tpot_seconds, n_params, weight_bytes, kv_bytes, hardware):
    if tpot_seconds <= 0:
        raise ValueError("tpot_seconds must be above 0")

    def fits(size):
        return decode_step_time(size, n_params, weight_bytes, kv_bytes, hardware) <= tpot_seconds

    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# %% solved for the batch, and mended by one
def max_batch_for_tpot(tpot_seconds, n_params, weight_bytes, kv_bytes, hardware):
    require_positive(tpot_seconds=tpot_seconds, n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    W, P = hardware.bandwidth_bytes_per_second, hardware.peak_flops_per_second
    left = tpot_seconds - weight_bytes / W
    if left < 0:
        return 0
    by_arithmetic = tpot_seconds / (kv_bytes / W + 2 * n_params / P)
    by_reading = left / (kv_bytes / W) if kv_bytes else by_arithmetic
    size = int(min(by_reading, by_arithmetic)) + 1
    while size and decode_step_time(size, n_params, weight_bytes, kv_bytes, hardware) > tpot_seconds:
        size -= 1
    return size


# %% NumPy, all batches at once
import numpy as np


def max_batch_for_tpot(tpot_seconds, n_params, weight_bytes, kv_bytes, hardware):
    require_positive(tpot_seconds=tpot_seconds, n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    W, P = hardware.bandwidth_bytes_per_second, hardware.peak_flops_per_second
    sizes = np.arange(1, int(tpot_seconds * P / (2 * n_params)) + 3)
    steps = sizes * kv_bytes / W + np.maximum(weight_bytes / W, 2 * n_params * sizes / P)
    return int((steps <= tpot_seconds).sum())


# %% recursion over bits
def max_batch_for_tpot(tpot_seconds, n_params, weight_bytes, kv_bytes, hardware):
    require_positive(tpot_seconds=tpot_seconds)

    def largest(found, bit):
        if bit == 0:
            return found
        ok = decode_step_time(found + bit, n_params, weight_bytes, kv_bytes, hardware) <= tpot_seconds
        return largest(found + bit if ok else found, bit // 2)

    return largest(0, 2**40)
