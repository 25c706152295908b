# %% a negated floor
def crossover_batch(weight_bytes, kv_bytes):
    if weight_bytes <= 0:
        raise ValueError("weight_bytes must be above 0")
    if kv_bytes <= 0:
        raise ValueError("kv_bytes must be above 0")
    return int(-(-weight_bytes // kv_bytes))


# %% divmod
def crossover_batch(weight_bytes, kv_bytes):
    require_positive(weight_bytes=weight_bytes, kv_bytes=kv_bytes)
    whole, rest = divmod(weight_bytes, kv_bytes)
    return int(whole) + (rest > 0)


# %% NumPy
import numpy as np


def crossover_batch(weight_bytes, kv_bytes):
    require_positive(weight_bytes=weight_bytes, kv_bytes=kv_bytes)
    return np.int64(np.ceil(np.float64(weight_bytes) / kv_bytes))


# %% a search by doubling and halving
def crossover_batch(weight_bytes, kv_bytes):
    require_positive(weight_bytes=weight_bytes, kv_bytes=kv_bytes)
    high = 1
    while high * kv_bytes < weight_bytes:
        high *= 2
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle * kv_bytes < weight_bytes else (low, middle)
    return high


# %% exact fractions
import math
from fractions import Fraction


def crossover_batch(weight_bytes, kv_bytes):
    require_positive(weight_bytes=weight_bytes, kv_bytes=kv_bytes)
    return math.ceil(Fraction(weight_bytes) / Fraction(kv_bytes))
