# %% one less half of the distance
def acceptance_rate(target_probs, draft_probs):
    return 1 - (target_probs - draft_probs).abs().sum(dim=-1) / 2


# %% numpy
import numpy as np


def acceptance_rate(target_probs, draft_probs):
    return torch.as_tensor(np.minimum(target_probs.numpy(), draft_probs.numpy()).sum(-1))


# %% a loop over the rows
def acceptance_rate(target_probs, draft_probs):
    if target_probs.ndim == 1:
        return torch.tensor(sum(min(p, q) for p, q in zip(target_probs.tolist(), draft_probs.tolist())))
    return torch.stack([acceptance_rate(p, q) for p, q in zip(target_probs, draft_probs)])


# %% the smaller of a stack, by einsum
def acceptance_rate(target_probs, draft_probs):
    smaller = torch.stack((target_probs, draft_probs)).amin(0)
    return torch.einsum("...v->...", smaller)


# %% where, and a product with ones
def acceptance_rate(target_probs, draft_probs):
    smaller = torch.where(target_probs < draft_probs, target_probs, draft_probs)
    return smaller @ torch.ones(smaller.shape[-1], dtype=smaller.dtype)


# %% p less the residual's mass
def acceptance_rate(target_probs, draft_probs):
    rejected = torch.relu(draft_probs - target_probs).sum(-1)
    return torch.ones_like(rejected) - rejected
