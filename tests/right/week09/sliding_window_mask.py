# %% distances by arange
def sliding_window_mask(T, S, window, device="cpu"):
    require_count(1, window=window)
    back = torch.arange(S - T, S, device=device)[:, None] - torch.arange(S, device=device)
    return (back >= 0) & (back < window)


# %% lists of True and False
def sliding_window_mask(T, S, window, device="cpu"):
    if window < 1 or window != int(window):
        raise ValueError(f"window must be a whole number of at least 1, not {window}")
    rows = []
    for t in range(T):
        position = S - T + t
        rows.append([position - window < s <= position for s in range(S)])
    return torch.tensor(rows, dtype=torch.bool, device=device)


# %% two triangles, one taken from the other
def sliding_window_mask(T, S, window, device="cpu"):
    require_count(1, window=window)
    ones = torch.ones((T, S), device=device)
    return (torch.tril(ones, S - T) - torch.tril(ones, S - T - window)).bool()


# %% row by row into zeros
def sliding_window_mask(T, S, window, device="cpu"):
    require_count(1, window=window)
    mask = torch.zeros(T, S, dtype=torch.bool, device=device)
    for t in range(T):
        own = S - T + t
        mask[t, max(0, own + 1 - window) : own + 1] = True
    return mask


# %% numpy, moved to the device
import numpy as np


def sliding_window_mask(T, S, window, device="cpu"):
    if not window >= 1 or window % 1:
        raise ValueError(f"window: {window}")
    mask = np.tri(T, S, S - T, dtype=bool) & ~np.tri(T, S, S - T - window, dtype=bool)
    return torch.from_numpy(mask).to(device)
