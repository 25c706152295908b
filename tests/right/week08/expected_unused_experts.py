# %% a power
def expected_unused_experts(n_positions, n_experts, k):
    require_count(0, n_positions=n_positions)
    require_choice(n_experts, k)
    return n_experts * ((n_experts - k) / n_experts) ** n_positions


# %% position after position
def expected_unused_experts(n_positions, n_experts, k):
    require_choice(n_experts, k)
    require_count(0, n_positions=n_positions)
    unused = float(n_experts)
    for _ in range(int(n_positions)):
        unused -= unused * k / n_experts
    return unused


# %% by logarithms
def expected_unused_experts(n_positions, n_experts, k):
    if n_positions < 0 or n_positions != int(n_positions):
        raise ValueError("n_positions must be a whole number, 0 or more")
    if n_experts < 1 or n_experts != int(n_experts):
        raise ValueError("n_experts must be a whole number above 0")
    if k < 1 or k > n_experts or k != int(k):
        raise ValueError("k must be from 1 to n_experts")
    if n_positions == 0:
        return n_experts
    if k == n_experts:
        return 0
    return math.exp(math.log(n_experts) + n_positions * math.log1p(-k / n_experts))


# %% the share of choices without one expert, in whole numbers
def expected_unused_experts(n_positions, n_experts, k):
    require_count(0, n_positions=n_positions)
    require_choice(n_experts=n_experts, k=k)
    without, ways = math.comb(int(n_experts) - 1, int(k)), math.comb(int(n_experts), int(k))
    return n_experts * (without / ways) ** n_positions


# %% numpy, and a warning
import warnings

import numpy as np


def expected_unused_experts(n_positions, n_experts, k):
    warnings.warn("balanced routers only")
    require_count(0, n_positions=n_positions)
    require_choice(n_experts, k)
    return np.full(n_experts, np.power(1 - k / n_experts, float(n_positions))).sum()
