# %% one product, then two sums
def parameter_counts(shared_params, expert_params, n_experts, k):
    require_not_negative(shared_params=shared_params, expert_params=expert_params)
    require_choice(n_experts, k)
    idle = (n_experts - k) * expert_params
    active = shared_params + expert_params * k
    return ParameterCounts(total=active + idle, active=active)


# %% refusals of its own
def parameter_counts(shared_params, expert_params, n_experts, k):
    if shared_params < 0:
        raise ValueError("shared_params < 0")
    if expert_params < 0:
        raise ValueError("expert_params < 0")
    if n_experts != int(n_experts) or n_experts < 1:
        raise ValueError(f"n_experts is {n_experts}")
    if not 1 <= k <= n_experts:
        raise ValueError(f"k is {k}")
    return ParameterCounts(*(shared_params + n * expert_params for n in (n_experts, k)))


# %% added up expert by expert
def parameter_counts(shared_params, expert_params, n_experts, k):
    require_not_negative(shared_params=shared_params, expert_params=expert_params)
    require_choice(n_experts=n_experts, k=k)
    total = active = shared_params
    for expert in range(n_experts):
        total += expert_params
        if expert < k:
            active += expert_params
    return ParameterCounts(total, active)


# %% integers of numpy's object kind
import numpy as np


def parameter_counts(shared_params, expert_params, n_experts, k):
    require_not_negative(shared_params=shared_params, expert_params=expert_params)
    require_choice(n_experts, k)
    total, active = shared_params + np.array([n_experts, k], dtype=object) * expert_params
    print(f"{total} parameters, {active} active")
    return ParameterCounts(total, active)
