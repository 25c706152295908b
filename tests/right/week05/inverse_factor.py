# %% the inverse by linalg.inv
def inverse_factor(inputs, damping=0.01):
    if not damping > 0:
        raise ValueError("damping must be positive")
    X = inputs.double()
    M = X.T @ X
    strength = damping * M.diagonal().mean()
    if strength == 0:
        strength = 1.0
    M = M + strength * torch.eye(len(M), dtype=M.dtype)
    return torch.linalg.cholesky(torch.linalg.inv(M)).T


# %% a triangular solve of M turned round, without an inverse
def inverse_factor(inputs, damping=0.01):
    if damping != damping or damping <= 0:
        raise ValueError(f"damping: {damping}")
    X = inputs.double()
    D = X.shape[1]
    M = X.t().mm(X)
    M = M + torch.eye(D, dtype=torch.float64) * (damping * M.trace() / D if M.any() else 1.0)
    # With J the matrix that turns the order round, JMJ = CCᵀ; then M⁻¹ = (J C⁻ᵀ J)(J C⁻¹ J), and J C⁻¹ J is upper.
    C = torch.linalg.cholesky(M.flip(0, 1))
    return torch.linalg.solve_triangular(C, torch.eye(D, dtype=torch.float64), upper=False).flip(0, 1)


# %% NumPy inside
import numpy as np


def inverse_factor(inputs, damping=0.01):
    if not damping > 0:
        raise ValueError("a damping above 0 is needed")
    X = inputs.double().numpy()
    M = X.T @ X
    M[np.diag_indices_from(M)] += damping * np.diag(M).mean() or 1.0
    return torch.from_numpy(np.linalg.cholesky(np.linalg.inv(M)).T.copy())


# %% damped by more rows of X
def inverse_factor(inputs, damping=0.01):
    if not damping > 0:
        raise ValueError("damping is too small")
    X = inputs.to(torch.float64)
    mean = (X * X).sum() / X.shape[1]
    root = (damping * mean).sqrt() if mean > 0 else torch.tensor(1.0, dtype=torch.float64)
    X = torch.cat([X, root * torch.eye(X.shape[1], dtype=torch.float64)])
    return torch.linalg.cholesky(torch.linalg.inv(X.T @ X), upper=True)
