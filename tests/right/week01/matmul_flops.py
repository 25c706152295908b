# %% twice the product, its own refusals
def matmul_flops(n_params, n_tokens):
    if not n_params > 0:
        raise ValueError(f"n_params must be above 0, not {n_params}")
    if n_tokens < 0 or n_tokens != int(n_tokens):
        raise ValueError(f"n_tokens must be a whole number, 0 or more, not {n_tokens}")
    multiplications = n_params * n_tokens
    additions = multiplications
    return multiplications + additions


# %% exact integers
def matmul_flops(n_params, n_tokens):
    require_positive(n_params=n_params)
    require_count(0, n_tokens=n_tokens)
    return int(2 * n_params * n_tokens) if float(n_params).is_integer() else 2 * n_params * n_tokens


# %% NumPy
import numpy as np


def matmul_flops(n_params, n_tokens):
    require_positive(n_params=n_params)
    require_count(0, n_tokens=n_tokens)
    return np.prod(np.array([2.0, n_params, n_tokens]))


# %% one pass after another, with a helper of an engine's name and a print
def require_count(x):
    if x < 0 or x % 1:
        raise ValueError("bad n_tokens")


def matmul_flops(n_params, n_tokens):
    require_positive(n_params=n_params)
    require_count(n_tokens)
    print("flops of", n_tokens, "positions")
    if n_tokens == 0:
        return 0
    if n_tokens == 1:
        return n_params + n_params
    half = n_tokens // 2
    return (
        matmul_flops(n_params, half) + matmul_flops(n_params, n_tokens - half)
        if n_tokens < 64
        else n_tokens * matmul_flops(n_params, 1)
    )


# %% a fraction made a float
from fractions import Fraction


def matmul_flops(n_params: float, n_tokens: int) -> float:
    if n_params <= 0:
        raise ValueError("n_params")
    require_count(minimum=0, n_tokens=n_tokens)
    return float(2 * Fraction(n_params) * n_tokens)
