# %% tokens a unit of time
def speculative_speedup(alpha, gamma, draft_cost):
    if draft_cost < 0 or draft_cost != draft_cost:
        raise ValueError("draft_cost must be 0 or more")
    time_of_a_round = 1 + gamma * draft_cost
    return expected_tokens_per_round(alpha, gamma) / time_of_a_round


# %% passes added one by one
def speculative_speedup(alpha, gamma, draft_cost):
    check_alpha_gamma(alpha, gamma)
    if not draft_cost >= 0:
        raise ValueError(f"draft_cost = {draft_cost}")
    time, tokens, kept = 1.0, 1.0, 1.0
    for _ in range(gamma):
        time += draft_cost
        kept *= alpha
        tokens += kept
    return tokens / time


# %% fractions
from fractions import Fraction


def speculative_speedup(alpha, gamma, draft_cost):
    tokens = expected_tokens_per_round(alpha=alpha, gamma=gamma)
    try:
        cost = Fraction(draft_cost)
    except ValueError:
        raise ValueError("draft_cost is NaN") from None
    if cost < 0:
        raise ValueError("draft_cost is negative")
    return float(Fraction(tokens) / (1 + gamma * cost))


# %% the closed form, in numpy
import numpy as np


def speculative_speedup(alpha, gamma, draft_cost):
    check_alpha_gamma(alpha, gamma)
    if np.isnan(draft_cost) or draft_cost < 0:
        raise ValueError("draft_cost out of range")
    tokens = np.polyval(np.ones(gamma + 1), alpha)
    return np.divide(tokens, np.float64(1) + gamma * draft_cost)
