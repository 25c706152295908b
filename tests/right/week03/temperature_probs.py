# %% a loop over rows in plain Python
import math


def temperature_probs(logits, temperature):
    if not (0 <= temperature < math.inf):
        raise ValueError("temperature must be finite and 0 or more")
    V = logits.shape[-1]
    rows = []
    for row in logits.double().reshape(-1, V).tolist():
        if any(math.isnan(z) or z == math.inf for z in row) or all(z == -math.inf for z in row):
            raise ValueError("logits must have a finite one in each row, no NaN and no +inf")
        largest = max(row)
        if temperature == 0:
            best = row.index(largest)
            rows.append([float(token == best) for token in range(V)])
        else:
            weights = [math.exp((z - largest) / temperature) for z in row]
            total = sum(weights)
            rows.append([weight / total for weight in weights])
    return torch.tensor(rows, dtype=torch.float64).reshape(logits.shape)


# %% exponentials over their sum
def temperature_probs(logits, temperature):
    check_temperature(temperature)
    logits = logits.to(torch.float64)
    bad = logits.isnan() | (logits == float("inf"))
    if bad.any() or (logits == -float("inf")).all(dim=-1).any():
        raise ValueError("logits")
    if temperature == 0:
        result = torch.zeros(logits.shape, dtype=torch.float64)
        result.scatter_(-1, torch.argmax(logits, -1, True), 1)
        return result
    weights = torch.exp((logits - torch.amax(logits, -1, keepdim=True)) / temperature)
    return weights / weights.sum(-1, keepdim=True)


# %% NumPy
import numpy as np


def temperature_probs(logits, temperature):
    check_temperature(temperature)
    z = logits.detach().to(torch.float64).numpy()
    largest = z.max(axis=-1, keepdims=True)
    if not np.isfinite(largest).all():
        raise ValueError("logits hold nothing to choose from")
    if temperature == 0:
        return torch.from_numpy((np.arange(z.shape[-1]) == z.argmax(axis=-1)[..., None]).astype(np.float64))
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp((z - largest) / temperature)
    return torch.from_numpy(weights / weights.sum(axis=-1, keepdims=True))


# %% log-softmax and a one-hot
import torch.nn.functional as F


def temperature_probs(logits, temperature):
    check_temperature(temperature)
    x = logits.type(torch.float64)
    check_finite(x.max(dim=-1).values)
    if temperature == 0:
        return F.one_hot(x.argmax(-1), x.shape[-1]).double()
    shifted = x - x.max(dim=-1, keepdim=True).values
    return (shifted / temperature).log_softmax(-1).exp()


# %% einsum, a print and a helper of an engine's name
def check_finite(x):
    if not torch.isfinite(x).all():
        raise ValueError("logits are impossible")


def temperature_probs(logits, temperature):
    print("T =", temperature)
    check_temperature(temperature)
    logits = logits.double()
    largest = logits.amax(-1)
    check_finite(largest)
    if temperature == 0:
        ids = torch.arange(logits.shape[-1])
        first = torch.where(logits == largest[..., None], ids, logits.shape[-1]).amin(-1)
        return (ids == first[..., None]).double()
    weights = ((logits - largest[..., None]) / temperature).exp()
    return torch.einsum("...v,...->...v", weights, 1 / weights.sum(-1))
