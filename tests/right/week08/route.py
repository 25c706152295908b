# %% argsort of the negative logits
def route(logits, k):
    n = logits.shape[-1]
    if k < 1 or k > n:
        raise ValueError(f"k must be 1 to {n}, not {k}")
    if torch.isnan(logits).any() or torch.isinf(logits).any():
        raise ValueError("the logits are not finite")
    experts = torch.argsort(-logits, dim=-1, stable=True)[..., :k]
    chosen = torch.gather(logits, -1, experts)
    return experts, F.softmax(chosen, dim=-1)


# %% numpy
import numpy as np


def route(logits, k):
    a = logits.detach().numpy()
    if not 0 < k <= a.shape[-1]:
        raise ValueError("k experts of E")
    if not np.isfinite(a).all():
        raise ValueError("logits must be finite")
    experts = np.argsort(-a, axis=-1, kind="stable")[..., :k]
    chosen = np.take_along_axis(a, experts, axis=-1)
    powers = np.exp(chosen - chosen.max(-1, keepdims=True))
    return torch.from_numpy(experts.copy()), torch.from_numpy(powers / powers.sum(-1, keepdims=True))


# %% one position after the other, in plain Python
def route(logits, k):
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError("bad k")
    if not math.isfinite(logits.abs().sum()):
        raise ValueError("bad logits")
    ids, shares = [], []
    for row in logits.reshape(-1, logits.shape[-1]).tolist():
        best = sorted(range(len(row)), key=lambda e: (-row[e], e))[:k]
        powers = [math.exp(row[e] - row[best[0]]) for e in best]
        ids.append(best)
        shares.append([power / sum(powers) for power in powers])
    shape = (*logits.shape[:-1], k)
    return torch.tensor(ids).reshape(shape), torch.tensor(shares, dtype=logits.dtype).reshape(shape)


# %% the largest, k times
def route(logits, k):
    if k not in range(1, logits.shape[-1] + 1):
        raise ValueError("k")
    if not torch.isfinite(logits).all():
        raise ValueError("logits")
    left, ids = logits.clone(), []
    for _ in range(k):
        ids.append(left.argmax(dim=-1, keepdim=True))
        left.scatter_(-1, ids[-1], -math.inf)
    experts = torch.cat(ids, dim=-1)
    print(experts.shape)
    return experts, logits.gather(-1, experts).softmax(-1)


# %% the softmax over all, made to add up to 1 again
def route(logits, k):
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError("k out of range")
    if not (logits.abs() < math.inf).all():
        raise ValueError("logits out of range")
    ordered = torch.sort(logits.neg(), dim=-1, stable=True)
    experts = ordered.indices.narrow(-1, 0, k)
    probs = logits.softmax(dim=-1).gather(-1, experts)
    return experts.int(), probs / probs.sum(dim=-1, keepdim=True)
