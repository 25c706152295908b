# %% a loop over rows in plain Python
def top_p_filter(probs, p):
    if not 0 < p <= 1:
        raise ValueError("p must be above 0 and at most 1")
    tolerance = 1e-9 if probs.dtype == torch.float64 else 1e-6
    V, result = probs.shape[-1], []
    for row in probs.reshape(-1, V).tolist():
        kept, total = set(), 0.0
        for token in sorted(range(V), key=lambda token: -row[token]):
            if row[token] == 0 or (p < 1 and kept and total >= p - tolerance):
                break
            kept.add(token)
            total += row[token]
        result.append([row[token] / total if token in kept else 0.0 for token in range(V)])
    return torch.tensor(result, dtype=probs.dtype).reshape(probs.shape)


# %% how many stay
def top_p_filter(probs, p):
    check_top_p(p)
    values, order = torch.sort(probs, dim=-1, descending=True, stable=True)
    if p == 1:
        return probs / probs.sum(-1, keepdim=True)
    reached = values.cumsum(-1) >= p - rounding_tolerance(probs)
    n = (~reached).sum(-1, keepdim=True) + 1
    keep = torch.arange(probs.shape[-1]) < n
    kept = torch.zeros_like(probs).scatter(-1, order, values * keep)
    return kept / kept.sum(-1, keepdim=True)


# %% NumPy
import numpy as np


def top_p_filter(probs, p):
    if not (p > 0 and p <= 1):
        raise ValueError(f"p is {p}")
    a = probs.numpy()
    order = np.argsort(-a, axis=-1, kind="stable")
    sorted_ = np.take_along_axis(a, order, axis=-1)
    before = np.concatenate([np.zeros_like(sorted_[..., :1]), np.cumsum(sorted_, axis=-1)[..., :-1]], axis=-1)
    keep = (sorted_ > 0) if p == 1 else before < p - (1e-9 if a.dtype == np.float64 else 1e-6)
    keep[..., 0] = True
    out = np.zeros_like(a)
    np.put_along_axis(out, order, np.where(keep, sorted_, 0), axis=-1)
    return torch.from_numpy(out / out.sum(axis=-1, keepdims=True))


# %% a mask in the tokens' own places
def top_p_filter(probs, p):
    check_top_p(p)
    order = probs.argsort(dim=-1, descending=True, stable=True)
    ordered = probs.gather(-1, order)
    before = torch.nn.functional.pad(ordered, (1, 0))[..., :-1].cumsum(-1)
    keep = before < p - rounding_tolerance(probs) if p < 1 else torch.ones_like(probs, dtype=torch.bool)
    keep = keep | (torch.arange(probs.shape[-1]) == 0)
    mask = keep.gather(-1, order.argsort(-1))
    kept = probs.masked_fill(~mask, 0)
    return kept / kept.sum(-1, keepdim=True)


# %% recursion over rows, in float64
def top_p_filter(probs, p):
    check_top_p(p)
    if probs.ndim > 1:
        return torch.stack([top_p_filter(row, p) for row in probs])
    if p == 1:
        return probs.clone()
    values, order = probs.double().sort(descending=True, stable=True)
    missing, n = p - rounding_tolerance(probs), 0
    while n == 0 or (missing > 0 and n < len(values)):
        missing -= values[n].item()
        n += 1
    kept = torch.zeros_like(probs)
    kept[order[:n]] = probs[order[:n]]
    return kept / kept.sum()
