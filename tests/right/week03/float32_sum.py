# %% NumPy
import numpy as np


def float32_sum(values, order):
    if sorted(order) != list(range(len(values))):
        raise ValueError("order must be a permutation")
    total = np.float32(0)
    for index in order:
        total = np.float32(total + np.float32(values[index]))
    return float(total)


# %% the standard library's rounding
import struct


def float32_sum(values, order):
    def rounded(x):
        return struct.unpack("<f", struct.pack("<f", x))[0]

    if len(order) != len(values) or set(order) != set(range(len(values))):
        raise ValueError("order is not a permutation")
    total = 0.0
    for index in order:
        total = rounded(total + rounded(values[index]))
    return total


# %% one tensor of the values, added in place
def float32_sum(values, order):
    seen = [False] * len(values)
    for index in order:
        if not 0 <= index < len(values) or seen[index]:
            raise ValueError(f"order names {index} twice, or it is no position")
        seen[index] = True
    if not all(seen):
        raise ValueError("order leaves a position out")
    numbers = torch.tensor(list(values), dtype=torch.float32)
    total = torch.tensor(0.0)
    for index in order:
        total += numbers[index]
    return total.item()


# %% recursion
def float32_sum(values, order):
    if sorted(order) != [*range(len(values))]:
        raise ValueError("order")
    if not len(order):
        return 0.0

    def upto(n):
        last = torch.tensor(float(values[order[n - 1]]), dtype=torch.float32)
        return last if n == 1 else upto(n - 1) + last

    return float(upto(len(order)))


# %% reduce, and float64 rounded at each step
from functools import reduce


def float32_sum(values, order):
    if sorted(int(i) for i in order) != list(range(len(values))):
        raise ValueError(f"the order {order} is no permutation")
    ordered = [torch.tensor(values[i], dtype=torch.float32) for i in order]
    return reduce(lambda total, x: (total.double() + x.double()).float(), ordered, torch.zeros(())).item()


# %% cumsum of NumPy, which adds one after the other
import numpy as np


def float32_sum(values, order):
    if sorted(order) != list(range(len(values))):
        raise ValueError("order")
    if len(values) == 0:
        return 0.0
    return float(np.cumsum(np.array([values[i] for i in order], dtype=np.float32), dtype=np.float32)[-1])
