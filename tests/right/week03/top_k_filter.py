# %% a loop over rows in plain Python
def top_k_filter(probs, k):
    if k < 1:
        raise ValueError("k must be 1 or more")
    V = probs.shape[-1]
    result = []
    for row in probs.reshape(-1, V).tolist():
        kept = sorted(range(V), key=lambda token: (-row[token], token))[:k]
        total = sum(row[token] for token in kept)
        result.append([row[token] / total if token in kept else 0.0 for token in range(V)])
    if k >= V:
        return probs
    return torch.tensor(result, dtype=probs.dtype).reshape(probs.shape)


# %% ranks
def top_k_filter(probs, k):
    check_top_k(k)
    order = torch.sort(probs, dim=-1, descending=True, stable=True).indices
    ranks = torch.empty_like(order).scatter_(-1, order, torch.arange(probs.shape[-1]).expand_as(order))
    kept = torch.where(ranks < k, probs, torch.zeros_like(probs))
    return kept / kept.sum(-1, keepdim=True)


# %% counting who is before
def top_k_filter(probs, k):
    check_top_k(k)
    if probs.shape[-1] > 2000:
        kept = torch.zeros_like(probs)
        first = probs.argsort(dim=-1, descending=True, stable=True)[..., :k]
        kept = kept.scatter(-1, first, probs.gather(-1, first))
    else:
        V = probs.shape[-1]
        mine, other = probs[..., :, None], probs[..., None, :]
        earlier = torch.arange(V)[None, :] < torch.arange(V)[:, None]
        before = ((other > mine) | ((other == mine) & earlier)).sum(-1)
        kept = probs * (before < k)
    return kept.div(kept.sum(dim=-1, keepdim=True))


# %% NumPy
import numpy as np


def top_k_filter(probs, k):
    if k < 1:
        raise ValueError(f"k is {k}, and must be at least 1")
    p = probs.numpy().copy()
    order = np.argsort(-p, axis=-1, kind="stable")
    np.put_along_axis(p, order[..., k:], 0.0, axis=-1)
    return torch.from_numpy(p / p.sum(axis=-1, keepdims=True))


# %% one after the other
def top_k_filter(probs, k):
    check_top_k(k)
    left, kept = probs.clone(), torch.zeros_like(probs)
    for _ in range(min(k, probs.shape[-1])):
        best = left.argmax(dim=-1, keepdim=True)
        kept.scatter_(-1, best, probs.gather(-1, best))
        left.scatter_(-1, best, -1.0)
    return kept / kept.sum(dim=-1, keepdim=True)
