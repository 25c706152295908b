# %% groups outside, columns inside
def gptq(weights, inputs, bits, group_size=None, damping=0.01, scale_dtype=None):
    check_inputs(weights, inputs)
    split_groups(weights, group_size)
    U = inverse_factor(inputs, damping)
    W = weights.double().clone()
    D = W.shape[1]
    size = D if group_size is None else group_size
    all_codes, all_scales = [], []
    for start in range(0, D, size):
        s = absmax_scales(W[:, start : start + size], bits)
        if scale_dtype is not None:
            s = s.to(scale_dtype)
        all_scales.append(s)
        for j in range(start, start + size):
            c = round_to_codes(W[:, j, None], s, bits)
            all_codes.append(c)
            off = (W[:, j, None] - dequantize(c, s).double()) / U[j, j]
            W[:, j + 1 :] = W[:, j + 1 :] - off @ U[j : j + 1, j + 1 :]
    return torch.cat(all_codes, dim=1), torch.cat(all_scales, dim=1)


# %% the columns left as a smaller matrix each time
def gptq(weights, inputs, bits, group_size=None, damping=0.01, scale_dtype=None):
    check_inputs(weights, inputs)
    split_groups(weights, group_size)
    U, left = inverse_factor(inputs, damping=damping), weights.to(torch.float64)
    size, codes, scales = group_size or weights.shape[1], [], []
    for j, row in enumerate(U):
        if j % size == 0:
            s = absmax_scales(left[:, :size], bits)
            scales.append(s.to(scale_dtype or s.dtype))
        first = left[:, :1]
        c = round_to_codes(first, scales[-1], bits)
        codes.append(c)
        e = first - c * scales[-1].double()
        left = left[:, 1:] - torch.outer(e[:, 0] / row[j], row[j + 1 :])
    return torch.hstack(codes), torch.hstack(scales)


# %% least squares solved anew for each column
def gptq(weights, inputs, bits, group_size=None, damping=0.01, scale_dtype=None):
    if not damping > 0:
        raise ValueError("damping must be above 0")
    check_inputs(weights, inputs)
    split_groups(weights, group_size)
    W, X, D = weights.double(), inputs.double(), weights.shape[1]
    M = X.T @ X
    M.diagonal().add_(damping * M.diagonal().mean().item() or 1.0)
    read, codes, scales = W.clone(), [], []
    for j in range(D):
        now = W[:, j:]
        if j:
            now = now - torch.linalg.solve(M[j:, j:], M[j:, :j] @ (read - W)[:, :j].T).T
        if j % (group_size or D) == 0:
            s = absmax_scales(now[:, : group_size or D], bits)
            scales.append(s if scale_dtype is None else s.to(scale_dtype))
        codes.append(round_to_codes(now[:, :1], scales[-1], bits))
        read[:, j] = codes[-1][:, 0].double() * scales[-1][:, 0].double()
    return torch.cat(codes, 1), torch.cat(scales, 1)


# %% row by row with NumPy
import numpy as np


def gptq(weights, inputs, bits, group_size=None, damping=0.01, scale_dtype=None):
    check_inputs(weights, inputs)
    split_groups(weights, group_size)
    U = inverse_factor(inputs, damping).numpy()
    D = weights.shape[1]
    size = group_size or D
    codes, scales = torch.zeros(weights.shape, dtype=torch.int8), []
    for i, row in enumerate(weights.double().numpy().copy()):
        scales.append([])
        for j in range(D):
            if j % size == 0:
                s = absmax_scales(torch.from_numpy(row[j : j + size].copy()), bits)
                scales[-1].append(s.to(scale_dtype or s.dtype))
            s = scales[-1][-1]
            codes[i, j] = round_to_codes(torch.tensor([row[j]], dtype=torch.float64), s, bits)[0]
            row[j + 1 :] -= (row[j] - codes[i, j].item() * s.item()) / U[j, j] * U[j, j + 1 :]
    return codes, torch.stack([torch.cat(each) for each in scales])
