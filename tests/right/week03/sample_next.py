# %% a loop over rows
def sample_next(logits, sampling, rng):
    if sampling.temperature == 0:
        return sampling.probs(logits).argmax(dim=-1)
    probs = sampling.probs(logits)
    tokens = []
    for b in range(len(probs)):
        tokens.append(rng.categorical(probs[b]))
    return torch.tensor(tokens)


# %% into a tensor made before
def sample_next(logits, sampling, rng):
    probs = sampling.probs(logits)
    tokens = torch.empty(logits.shape[0], dtype=torch.int64)
    for b, row in enumerate(probs):
        tokens[b] = int(row.argmax()) if sampling.temperature == 0 else rng.categorical(probs=row)
    return tokens


# %% plain Python when greedy
import math


def sample_next(logits, sampling, rng):
    if sampling.temperature == 0:
        tokens = []
        for row in logits.tolist():
            if any(math.isnan(z) or z == math.inf for z in row) or max(row) == -math.inf:
                raise ValueError("logits without a choice")
            tokens.append(row.index(max(row)))
        return torch.tensor(tokens, dtype=torch.int32)
    return torch.tensor([rng.categorical(p) for p in sampling.probs(logits).unbind(0)], dtype=torch.int32)


# %% row by row from the logits
def sample_next(logits, sampling, rng):
    if sampling.temperature == 0.0:
        check_finite(logits.amax(-1))
        return torch.argmax(logits, dim=-1)
    check_finite(logits.amax(-1))
    return torch.as_tensor([rng.categorical(sampling.probs(row)) for row in logits])


# %% the filters by hand, NumPy's ids
import numpy as np


def sample_next(logits, sampling, rng):
    probs = temperature_probs(logits, sampling.temperature)
    if sampling.temperature == 0:
        return torch.from_numpy(probs.numpy().argmax(axis=-1))
    if sampling.top_k is not None:
        probs = top_k_filter(probs, sampling.top_k)
    if sampling.top_p is not None:
        probs = top_p_filter(probs, sampling.top_p)
    if sampling.min_p is not None:
        probs = min_p_filter(probs, sampling.min_p)
    return torch.from_numpy(np.fromiter((rng.categorical(row) for row in probs), dtype=np.int64, count=len(probs)))
