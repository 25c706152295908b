# %% one shrinks, the other stays
def merge(one, other):
    maximum = torch.maximum(one.maximum, other.maximum)
    none = maximum == -math.inf

    def shrunk(state):
        return torch.where(none, torch.zeros_like(maximum), torch.exp(state.maximum - maximum))

    a, b = shrunk(one), shrunk(other)
    return SoftmaxState(maximum, a * one.total + b * other.total, a * one.weighted + b * other.weighted)


# %% both stacked
def merge(one, other):
    maxima = torch.stack([one.maximum, other.maximum])
    maximum = maxima.amax(0)
    factors = torch.exp(maxima - torch.where(torch.isinf(maximum), torch.zeros_like(maximum), maximum))
    total = (factors * torch.stack([one.total, other.total])).sum(0)
    weighted = (factors * torch.stack([one.weighted, other.weighted])).sum(dim=0)
    return SoftmaxState(maximum=maximum, total=total, weighted=weighted)


# %% the difference of the maxima alone
def merge(one, other):
    swap = other.maximum > one.maximum
    high = [torch.where(swap, b, a) for a, b in zip(one, other)]
    low = [torch.where(swap, a, b) for a, b in zip(one, other)]
    shrink = torch.exp(low[0] - high[0])
    shrink = torch.where(low[0].isneginf(), torch.zeros_like(shrink), shrink)
    return SoftmaxState(high[0], high[1] + shrink * low[1], high[2] + shrink * low[2])


# %% numpy inside
import numpy as np


def merge(one, other):
    first, second = ([part.numpy() for part in state] for state in (one, other))
    maximum = np.maximum(first[0], second[0])
    shift = np.where(np.isfinite(maximum), maximum, 0)
    sums = [np.exp(first[0] - shift) * a + np.exp(second[0] - shift) * b for a, b in zip(first[1:], second[1:])]
    return SoftmaxState(*(torch.from_numpy(part) for part in (maximum, *sums)))


# %% the other state as a single key more
def merge(one, other):
    mean = other.weighted / other.total.masked_fill(other.total == 0, 1)
    weight = other.maximum + torch.log(other.total)  # the score of one key with all of its weight
    maximum = torch.maximum(one.maximum, other.maximum)
    shift = maximum.masked_fill(maximum == -math.inf, 0)
    first, second = torch.exp(one.maximum - shift), torch.exp(weight - shift)
    return SoftmaxState(maximum, one.total * first + second, one.weighted * first + mean * second)
