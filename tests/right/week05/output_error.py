# %% the difference first
def output_error(weights, approximation, inputs):
    X, W = inputs.to(torch.float64), weights.to(torch.float64)
    y = F.linear(X, W)
    if not y.any():
        raise ValueError("all outputs are zero")
    moved = F.linear(X, W - approximation.to(torch.float64))
    return float(torch.sqrt((moved**2).sum() / (y**2).sum()))


# %% both outputs, subtracted after
def output_error(weights, approximation, inputs):
    X = inputs.double()
    right = X @ weights.double().t()
    wrong = X @ approximation.double().t()
    size = torch.linalg.norm(right)
    if size == 0:
        raise ValueError("outputs are zero; there is nothing to compare with")
    return (torch.linalg.norm(right - wrong) / size).item()


# %% through XᵀX
def output_error(weights, approximation, inputs):
    X, W = inputs.double(), weights.double()
    M, E = X.T @ X, W - approximation.double()
    size = torch.einsum("oi,ij,oj->", W, M, W)
    if size <= 0:
        raise ValueError("these inputs make nothing of these numbers")
    return torch.einsum("oi,ij,oj->", E, M, E).div(size).sqrt().item()


# %% NumPy inside, position by position
import numpy as np


def output_error(weights, approximation, inputs):
    W, A = weights.double().numpy(), approximation.double().numpy()
    moved = size = 0.0
    for x in inputs.double().numpy():
        size += np.sum((W @ x) ** 2)
        moved += np.sum(((W - A) @ x) ** 2)
    if size == 0:
        raise ValueError("outputs: all zero")
    return float(np.sqrt(moved / size))
