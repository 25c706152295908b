# %% a loop over tokens
def residual_distribution(target_probs, draft_probs):
    left = [max(p - q, 0.0) for p, q in zip(target_probs.tolist(), draft_probs.tolist(), strict=True)]
    total = sum(left)
    if total == 0:
        raise ValueError("target_probs and draft_probs are equal: nothing is left over")
    return torch.tensor([part / total for part in left], dtype=target_probs.dtype)


# %% numpy inside, and a warning
import warnings

import numpy as np


def residual_distribution(target_probs, draft_probs):
    warnings.warn("slow")
    p, q = target_probs.numpy(), draft_probs.numpy()
    left = np.where(p > q, p - q, 0)
    if not left.any():
        raise ValueError("no residual")
    return torch.from_numpy(left / left.sum())


# %% p less what is kept, scaled by the share that is rejected
def residual_distribution(target_probs, draft_probs):
    if torch.equal(target_probs, draft_probs):
        raise ValueError("both distributions are the same")
    kept = torch.minimum(target_probs, draft_probs)
    left = target_probs - kept
    return left * (1 / left.sum())


# %% a relu, normalised by torch, in place on a copy made with a warning
def residual_distribution(target_probs, draft_probs):
    left = torch.tensor(target_probs)  # which warns, and is a copy
    left -= torch.tensor(draft_probs)
    left.relu_()
    if left.max() <= 0:
        raise ValueError("nothing over")
    return torch.nn.functional.normalize(left, p=1.0, dim=0, eps=0.0)


# %% float32 in between, and a print
def residual_distribution(target_probs, draft_probs):
    print("p", target_probs, "q", draft_probs)
    left = torch.max(target_probs - draft_probs, torch.zeros(())).float()
    return left / check_distributions(left)


def check_distributions(left):
    """A helper with a name that the engine has."""
    total = left.sum()
    if not total > 0:
        raise ValueError("nothing is left over")
    return total


# %% a mask, filled from sorted differences
def residual_distribution(target_probs, draft_probs):
    differences, tokens = (target_probs - draft_probs).sort(descending=True)
    n = int((differences > 0).sum())
    if n == 0:
        raise ValueError("p and q are equal")
    result = torch.zeros_like(target_probs)
    result[tokens[:n]] = differences[:n] / differences[:n].sum()
    return result
