# %% asked whether to reject
def accept_or_resample(target_probs, draft_probs, draft_token, rng):
    check_distributions(target_probs, draft_probs)
    if draft_probs[draft_token] == 0:
        raise ValueError(f"draft_token {draft_token} cannot have been drawn")
    ratio = float(target_probs[draft_token] / draft_probs[draft_token])
    if rng.bernoulli(1 - ratio):
        return rng.categorical(residual_distribution(target_probs, draft_probs)), False
    return draft_token, True


# %% the ratio cut at 1, a residual of its own, an early return
def accept_or_resample(target_probs, draft_probs, draft_token, rng):
    check_distributions(target_probs, draft_probs)
    p, q = target_probs[draft_token], draft_probs[draft_token]
    if not q > 0:
        raise ValueError("draft_token has probability 0 in draft_probs")
    if p >= q:
        return draft_token, True
    if rng.bernoulli(float(p / q)):
        return draft_token, True
    left = torch.relu(target_probs - draft_probs)
    return rng.categorical(left / left.sum()), False


# %% one draw from the mixture of both cases
def accept_or_resample(target_probs, draft_probs, draft_token, rng):
    check_distributions(target_probs, draft_probs)
    q = draft_probs[draft_token].item()
    if q == 0:
        raise ValueError("draft_token was not drawn from draft_probs")
    keep = min(1.0, target_probs[draft_token].item() / q)
    mixture = torch.zeros_like(target_probs)
    if keep < 1:
        mixture += (1 - keep) * residual_distribution(target_probs, draft_probs)
    mixture[draft_token] += keep
    token = rng.categorical(mixture)
    return token, token == draft_token


# %% a coin with two sides, and numpy
import numpy as np


def accept_or_resample(target_probs, draft_probs, draft_token, rng):
    p, q = np.asarray(target_probs, dtype=np.float64), np.asarray(draft_probs, dtype=np.float64)
    if p.shape != q.shape:
        raise ValueError("target_probs and draft_probs differ in shape")
    for name, x in (("target_probs", p), ("draft_probs", q)):
        if np.isnan(x).any() or (x < 0).any() or not np.isclose(x.sum(), 1.0):
            raise ValueError(f"{name} is no distribution")
    if q[draft_token] == 0:
        raise ValueError("draft_token impossible")
    keep = min(p[draft_token] / q[draft_token], 1.0)
    rejected = rng.categorical(torch.tensor([keep, 1 - keep], dtype=torch.float64))
    if not rejected:
        return int(draft_token), True
    left = np.maximum(p - q, 0)
    return np.int64(rng.categorical(torch.from_numpy(left / left.sum()))), np.bool_(False)


# %% the residual drawn first, then the decision
def accept_or_resample(target_probs, draft_probs, draft_token, rng):
    check_distributions(target_probs=target_probs, draft_probs=draft_probs)
    p, q = target_probs[draft_token].item(), draft_probs[draft_token].item()
    if q == 0:
        raise ValueError("draft_token: q(x) = 0")
    other = draft_token if p >= q else rng.categorical(residual_distribution(target_probs, draft_probs))
    accepted = bool(rng.bernoulli(prob=min(1, p / q)))
    print(accepted)
    return (draft_token if accepted else other, accepted)
