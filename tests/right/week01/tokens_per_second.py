# %% a rate times a batch
def tokens_per_second(step_seconds, batch_size=1):
    if step_seconds <= 0:
        raise ValueError("step_seconds must be above 0")
    if batch_size < 1 or batch_size != int(batch_size):
        raise ValueError("batch_size must be a whole number above 0")
    return 1 / step_seconds * batch_size


# %% the inverse of a token's time
def tokens_per_second(step_seconds, batch_size=1):
    require_positive(step_seconds=step_seconds)
    require_count(1, batch_size=batch_size)
    return (step_seconds / batch_size) ** -1


# %% NumPy
import numpy as np


def tokens_per_second(step_seconds, batch_size=1):
    require_positive(step_seconds=step_seconds)
    require_count(1, batch_size=batch_size)
    return np.ones(batch_size).sum() / np.float64(step_seconds)


# %% a sum over sequences
import math


def tokens_per_second(step_seconds, batch_size=1):
    require_count(1, batch_size=batch_size)
    require_positive(step_seconds=step_seconds)
    return math.fsum(1 / step_seconds for _ in range(batch_size))


# %% decimals
from decimal import Decimal


def tokens_per_second(step_seconds, batch_size=1):
    require_positive(step_seconds=step_seconds)
    require_count(1, batch_size=batch_size)
    return float(Decimal(int(batch_size)) / Decimal(step_seconds))
