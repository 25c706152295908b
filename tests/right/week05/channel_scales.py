# %% output_error itself, and the best so far
from nanolm.quantization import output_error


def channel_scales(weights, inputs, bits, group_size=None):
    check_inputs(weights, inputs)
    split_groups(weights, group_size)
    m = inputs.double().abs().mean(0)
    if not m.any():
        largest_code(bits)
        return torch.ones_like(m, dtype=weights.dtype)
    m = torch.maximum(m, m.max() * SMALLEST_SHARE)
    best, least = None, float("inf")
    for step in range(ALPHA_STEPS + 1):
        alpha = step / ALPHA_STEPS
        c = m.pow(alpha)
        c = (c / torch.sqrt(c.max() * c.min())).to(weights.dtype)
        approximation = dequantize(*quantize(weights * c, bits, group_size)) / c
        try:
            error = output_error(weights, approximation, inputs)
        except ValueError:
            error = 0.0
        if error < least:
            best, least = c, error
    return best


# %% logarithms
def channel_scales(weights, inputs, bits, group_size=None):
    check_inputs(weights, inputs)
    X = inputs.double()
    m = X.abs().sum(dim=0) / len(X)
    m = m.clamp(min=SMALLEST_SHARE * m.max()) if m.max() > 0 else torch.ones_like(m)
    logs = m.log()
    logs = logs - (logs.max() + logs.min()) / 2
    tried = [torch.exp(logs * step / ALPHA_STEPS).to(weights.dtype) for step in range(ALPHA_STEPS + 1)]
    errors = []
    for c in tried:
        codes, scales = quantize(weights * c, bits, group_size)
        errors.append((X @ (dequantize(codes, scales) / c - weights).double().T).pow(2).sum().item())
    return tried[errors.index(min(errors))]


# %% one stack of all candidates
def channel_scales(weights, inputs, bits, group_size=None):
    check_inputs(weights, inputs)
    X = inputs.double()
    m = X.abs().mean(dim=0)
    if m.max() == 0:
        m = torch.ones_like(m)
    m = torch.where(m < m.max() * SMALLEST_SHARE, m.max() * SMALLEST_SHARE, m)
    alphas = torch.arange(ALPHA_STEPS + 1, dtype=torch.float64)[:, None] / ALPHA_STEPS
    c = m**alphas
    c = (c / (c.amax(1, keepdim=True) * c.amin(1, keepdim=True)).sqrt()).to(weights.dtype)
    enlarged = weights[None] * c[:, None]
    read = dequantize(*quantize(enlarged, bits, group_size)) / c[:, None]
    moved = torch.einsum("nd,aod->ano", X, (read - weights).double()).flatten(1).norm(dim=1)
    return c[moved.argmin()]


# %% NumPy inside
import numpy as np


def channel_scales(weights, inputs, bits, group_size=None):
    check_inputs(weights, inputs)
    X = inputs.double().numpy()
    m = np.abs(X).mean(axis=0)
    m = np.maximum(m, SMALLEST_SHARE * m.max()) if m.max() else np.ones_like(m)

    def candidate(step):
        c = m ** (step / ALPHA_STEPS)
        return torch.from_numpy(c / np.sqrt(c.max() * c.min())).to(weights.dtype)

    def error(c):
        off = (dequantize(*quantize(weights * c, bits, group_size)) / c - weights).double().numpy()
        return np.linalg.norm(X @ off.T)

    return min(map(candidate, range(ALPHA_STEPS + 1)), key=error)
