# %% where the maximum is -inf, by torch.where
def online_softmax(state, scores, values):
    maximum = torch.maximum(state.maximum, scores.max(dim=-1, keepdim=True).values)
    nothing = torch.isneginf(maximum)
    correction = torch.where(nothing, torch.zeros_like(maximum), torch.exp(state.maximum - maximum))
    weights = torch.where(nothing, torch.zeros_like(scores), torch.exp(scores - maximum))
    total = correction * state.total + weights.sum(-1, keepdim=True)
    return SoftmaxState(maximum, total, correction * state.weighted + weighted_sum(weights, values))


# %% one key after the other
def online_softmax(state, scores, values):
    maximum, total, weighted = (part.clone() for part in state)
    for j in range(scores.shape[-1]):
        score = scores[..., j : j + 1]
        larger = torch.maximum(maximum, score)
        finite = torch.where(larger == -math.inf, 0.0, larger)
        shrink, weight = torch.exp(maximum - finite), torch.exp(score - finite)
        value = values[..., j, :].unsqueeze(-2) if values.ndim == scores.ndim else values[j]
        add = torch.where(weight > 0, weight * value, torch.zeros_like(weight * value))
        maximum, total, weighted = larger, total * shrink + weight, weighted * shrink + add
    return SoftmaxState(maximum=maximum, total=total, weighted=weighted)


# %% the state of the piece by itself, merged
def online_softmax(state, scores, values):
    best = scores.amax(dim=-1, keepdim=True)
    weights = (scores - best.clamp(min=torch.finfo(scores.dtype).min)).exp()
    piece = SoftmaxState(best, weights.sum(dim=-1, keepdim=True), weighted_sum(weights, values))
    return merge(state, piece)


# %% numpy inside, hidden values left out by hand
import numpy as np


def online_softmax(state, scores, values):
    old, total, weighted = (part.numpy() for part in state)
    s, v = scores.numpy(), values.numpy()
    maximum = np.maximum(old, s.max(axis=-1, keepdims=True))
    shift = np.where(np.isneginf(maximum), 0, maximum)
    with np.errstate(invalid="ignore"):
        weights = np.exp(s - shift)
        products = np.where(weights[..., None] > 0, weights[..., None] * v[..., None, :, :], 0)
    correction = np.exp(old - shift)
    parts = maximum, total * correction + weights.sum(-1, keepdims=True), weighted * correction + products.sum(-2)
    return SoftmaxState(*(torch.from_numpy(np.asarray(part)).to(scores) for part in parts))


# %% old and new side by side, one einsum
def online_softmax(state, scores, values):
    every = torch.cat([state.maximum, scores], dim=-1)
    maximum = every.amax(-1, keepdim=True)
    powers = torch.exp(every - torch.nan_to_num(maximum, neginf=0.0, posinf=math.inf))
    correction, weights = powers[..., :1], powers[..., 1:]
    total = torch.einsum("...a,...a->...", correction, state.total)[..., None] + weights.sum(-1)[..., None]
    print("maximum", tuple(maximum.shape))
    return SoftmaxState(maximum, total, state.weighted.mul(correction).add(weighted_sum(weights, values)))
