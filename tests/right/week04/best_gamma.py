# %% a loop that keeps the best
def best_gamma(alpha, draft_cost, max_gamma=32):
    check_alpha_gamma(alpha, max_gamma)
    best, fastest = 0, speculative_speedup(alpha, 0, draft_cost)
    for gamma in range(1, max_gamma + 1):
        speedup = speculative_speedup(alpha, gamma, draft_cost)
        if speedup > fastest:
            best, fastest = gamma, speedup
    return best


# %% numpy's argmax, which takes the first
import numpy as np


def best_gamma(alpha, draft_cost, max_gamma=32):
    if max_gamma < 0:
        raise ValueError("max_gamma must be 0 or more")
    return np.argmax([speculative_speedup(alpha, gamma, draft_cost) for gamma in range(max_gamma + 1)])


# %% the index of the largest in a list
def best_gamma(alpha, draft_cost, max_gamma=32):
    check_alpha_gamma(alpha, max_gamma)
    speedups = [speculative_speedup(gamma=g, alpha=alpha, draft_cost=draft_cost) for g in range(max_gamma + 1)]
    return speedups.index(max(speedups))


# %% sorted
def best_gamma(alpha, draft_cost, max_gamma=32):
    check_alpha_gamma(alpha, max_gamma)
    return sorted(range(max_gamma + 1), key=lambda g: (-speculative_speedup(alpha, g, draft_cost), g))[0]


# %% torch, in float64
def best_gamma(alpha, draft_cost, max_gamma=32):
    check_alpha_gamma(alpha, max_gamma)
    if not draft_cost >= 0:
        raise ValueError("draft_cost")
    gammas = torch.arange(max_gamma + 1, dtype=torch.float64)
    tokens = torch.cumsum(torch.tensor(float(alpha), dtype=torch.float64) ** gammas, 0)
    speedups = tokens / (1 + gammas * draft_cost)
    return int((speedups == speedups.max()).nonzero()[0])
