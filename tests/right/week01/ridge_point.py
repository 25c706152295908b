# %% the quotient
def ridge_point(hardware):
    flops, bandwidth = hardware.peak_flops_per_second, hardware.bandwidth_bytes_per_second
    return flops / bandwidth


# %% NumPy
import numpy as np


def ridge_point(hardware):
    return np.divide(hardware.peak_flops_per_second, hardware.bandwidth_bytes_per_second)


# %% the time of a byte over the time of an operation
def ridge_point(hardware):
    seconds_per_byte = 1 / hardware.bandwidth_bytes_per_second
    seconds_per_operation = 1 / hardware.peak_flops_per_second
    return seconds_per_byte / seconds_per_operation


# %% looked for by halving
def ridge_point(hardware):
    def reading_is_longer(operations_per_byte):
        return 1 / hardware.bandwidth_bytes_per_second > operations_per_byte / hardware.peak_flops_per_second

    low, high = 0.0, 1.0
    while reading_is_longer(high):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if reading_is_longer(middle) else (low, middle)
    return high


# %% logarithms
import math
import warnings


def ridge_point(hardware):
    warnings.warn("operations a byte")
    return math.exp(math.log(hardware.peak_flops_per_second) - math.log(hardware.bandwidth_bytes_per_second))
