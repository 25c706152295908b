# %% the two times of a parameter
import math


def critical_batch(hardware, weight_bits=16):
    if weight_bits <= 0:
        raise ValueError("weight_bits must be above 0")
    reading = weight_bits / 8 / hardware.bandwidth_bytes_per_second
    multiplying = 2 / hardware.peak_flops_per_second
    return math.floor(reading / multiplying)


# %% from the ridge point
def critical_batch(hardware, weight_bits=16):
    require_positive(weight_bits=weight_bits)
    ridge = hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second
    return int(ridge * weight_bits / 16)


# %% NumPy
import numpy as np


def critical_batch(hardware, weight_bits=16):
    require_positive(weight_bits=weight_bits)
    bytes_each = np.float64(weight_bits) / 8
    return np.int64(np.floor(bytes_each * hardware.peak_flops_per_second / 2 / hardware.bandwidth_bytes_per_second))


# %% a search by doubling and halving
def critical_batch(hardware, weight_bits=16):
    require_positive(weight_bits=weight_bits)

    def hides(batch):
        return 2 * batch / hardware.peak_flops_per_second <= weight_bits / 8 / hardware.bandwidth_bytes_per_second

    high = 1
    while hides(high):
        high *= 2
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if hides(middle):
            low = middle
        else:
            high = middle
    return low


# %% exact fractions
from fractions import Fraction


def critical_batch(hardware, weight_bits=16):
    require_positive(weight_bits=weight_bits)
    P, W = Fraction(hardware.peak_flops_per_second), Fraction(hardware.bandwidth_bytes_per_second)
    return Fraction(weight_bits) * P // (16 * W)
