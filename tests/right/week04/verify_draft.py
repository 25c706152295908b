# %% an index that walks until a rejection
def verify_draft(target_probs, draft_probs, drafted, rng):
    new, i = [], 0
    while i < len(drafted):
        token, accepted = accept_or_resample(target_probs[i], draft_probs[i], drafted[i], rng)
        new += [token]
        if not accepted:
            break
        i += 1
    else:
        new += [rng.categorical(target_probs[-1])]
    return new


# %% recursion over the rows
def verify_draft(target_probs, draft_probs, drafted, rng):
    if len(drafted) == 0:
        return [rng.categorical(target_probs[0])]
    token, accepted = accept_or_resample(target_probs[0], draft_probs[0], drafted[0], rng)
    if not accepted:
        return [token]
    return [token] + verify_draft(target_probs[1:], draft_probs[1:], drafted[1:], rng)


# %% asked whether to reject, without accept_or_resample
def verify_draft(target_probs, draft_probs, drafted, rng):
    new = []
    for i, x in enumerate(drafted):
        if rng.bernoulli(1 - target_probs[i, x].item() / draft_probs[i, x].item()):
            new.append(rng.categorical(residual_distribution(target_probs[i], draft_probs[i])))
            return new
        new.append(x)
    new.append(rng.categorical(target_probs[len(drafted)]))
    return new


# %% all decisions first, all ratios at once
def verify_draft(target_probs, draft_probs, drafted, rng):
    n = len(drafted)
    rows, x = torch.arange(n), torch.tensor(list(drafted), dtype=torch.long)
    ratios = (target_probs[rows, x] / draft_probs[rows, x]).clamp(max=1).tolist() if n else []
    kept = [rng.bernoulli(ratio) for ratio in ratios]
    n_kept = kept.index(False) if False in kept else n
    last = target_probs[n_kept]
    if n_kept < n:
        last = (last - draft_probs[n_kept]).clamp_min(0)
        last = last / last.sum()
    return list(drafted[:n_kept]) + [rng.categorical(last)]


# %% numpy, and a mixture of both cases in one draw
import numpy as np


def verify_draft(target_probs, draft_probs, drafted, rng):
    result = []
    for p, q, x in zip(np.asarray(target_probs), np.asarray(draft_probs), drafted):
        keep = min(1.0, float(p[x] / q[x]))
        left = np.maximum(p - q, 0)
        both = (1 - keep) * left / max(left.sum(), 1e-300)
        both[x] += keep
        token = rng.categorical(torch.tensor(both, dtype=torch.float64))
        result.append(token)
        if token != x:
            return result
    print("all kept")
    return result + [rng.categorical(target_probs[len(drafted)])]
