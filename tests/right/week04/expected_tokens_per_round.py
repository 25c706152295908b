# %% the closed form
def expected_tokens_per_round(alpha, gamma):
    check_alpha_gamma(alpha, gamma)
    if alpha == 1:
        return gamma + 1
    return (1 - alpha ** (gamma + 1)) / (1 - alpha)


# %% Horner's rule
def expected_tokens_per_round(alpha, gamma):
    if not (0 <= alpha <= 1):
        raise ValueError("alpha must lie between 0 and 1")
    if gamma < 0:
        raise ValueError("gamma must not be negative")
    tokens = 1.0
    for _ in range(gamma):
        tokens = 1 + alpha * tokens
    return tokens


# %% recursion
def expected_tokens_per_round(alpha, gamma):
    check_alpha_gamma(alpha, gamma)
    return 1.0 if gamma == 0 else 1 + alpha * expected_tokens_per_round(alpha, gamma - 1)


# %% numpy's powers
import numpy as np


def expected_tokens_per_round(alpha, gamma):
    check_alpha_gamma(alpha=alpha, gamma=gamma)
    return np.power(float(alpha), np.arange(gamma + 1)).sum()


# %% a running product, added up backwards
import math


def expected_tokens_per_round(alpha, gamma):
    check_alpha_gamma(alpha, gamma)
    terms, kept = [1.0], 1.0
    while len(terms) <= gamma:
        kept *= alpha
        terms.append(kept)
    return math.fsum(reversed(terms))
