# %% the root of the sum of squares, written out
def quantization_error(weights, approximation):
    if weights.shape != approximation.shape:
        raise ValueError("weights and approximation differ in shape")
    w, a = weights.double(), approximation.double()
    off, size = ((w - a) ** 2).sum(), (w**2).sum()
    if size == 0:
        return 0.0 if off == 0 else float("inf")
    return float((off / size).sqrt())


# %% NumPy's norm
import numpy as np


def quantization_error(weights, approximation):
    if tuple(weights.shape) != tuple(approximation.shape):
        raise ValueError("approximation: another shape")
    w, a = weights.double().numpy().ravel(), approximation.double().numpy().ravel()
    size, off = np.linalg.norm(w), np.linalg.norm(w - a)
    return off / size if size > 0 else (np.inf if off > 0 else 0.0)


# %% hypot of all numbers in Python
import math


def quantization_error(weights, approximation):
    if list(weights.shape) != list(approximation.shape):
        raise ValueError("the shapes of weights and approximation must be equal")
    pairs = list(zip(weights.flatten().tolist(), approximation.flatten().tolist()))
    off = math.hypot(*(w - a for w, a in pairs))
    try:
        return off / math.hypot(*(w for w, _ in pairs))
    except ZeroDivisionError:
        return math.inf if off else 0.0


# %% equal tensors first, then a dot product
def quantization_error(weights, approximation):
    if weights.shape != approximation.shape:
        raise ValueError(f"weights {weights.shape}, approximation {approximation.shape}")
    if torch.equal(weights.double(), approximation.double()):
        return 0.0
    off = (weights.double() - approximation.double()).flatten()
    w = weights.double().flatten()
    return torch.sqrt(torch.dot(off, off) / torch.dot(w, w)).item()
