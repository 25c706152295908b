# %% an index
def reusable_prefix_tokens(cached, prompt, granularity=1):
    if granularity != int(granularity) or granularity <= 0:
        raise ValueError(f"granularity is {granularity}")
    n = 0
    while n < len(prompt) - 1 and n < len(cached) and cached[n] == prompt[n]:
        n += 1
    while n % granularity:
        n -= 1
    return n


# %% takewhile
import operator
from itertools import takewhile


def reusable_prefix_tokens(cached, prompt, granularity=1):
    require_count(1, granularity=granularity)
    equal = list(takewhile(bool, map(operator.eq, cached, prompt)))
    most = max(len(prompt) - 1, 0)
    return min(len(equal), most) // granularity * granularity


# %% NumPy, whose result is an np.int64
import numpy as np


def reusable_prefix_tokens(cached, prompt, granularity=1):
    if not isinstance(granularity, int) or granularity < 1:
        raise ValueError("granularity must be a whole number above 0")
    n = min(len(cached), max(0, len(prompt) - 1))
    equal = np.array(cached[:n]) == np.array(prompt[:n])
    n_equal = np.cumprod(equal).sum()
    return n_equal - n_equal % granularity


# %% unit by unit, from the longest down
def reusable_prefix_tokens(cached, prompt, granularity=1):
    require_count(1, granularity=granularity)
    cached, prompt = list(cached), list(prompt)
    longest = min(len(cached), len(prompt) - 1) // granularity
    for n_units in range(longest, 0, -1):
        n = n_units * granularity
        if cached[:n] == prompt[:n]:
            print(n_units, "units")
            return n
    return 0


# %% halving, by recursion
def reusable_prefix_tokens(cached, prompt, granularity=1):
    require_count(1, granularity=granularity)

    def common(low, high):
        # the first `low` are equal; how many of the first `high` are?
        if low == high:
            return low
        middle = (low + high + 1) // 2
        if cached[low:middle] == prompt[low:middle]:
            return common(middle, high)
        return common(low, middle - 1)

    if not prompt:
        return 0
    return common(0, min(len(cached), len(prompt) - 1)) // granularity * granularity
