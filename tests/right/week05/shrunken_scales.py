# %% all ratios at once
def shrunken_scales(weights, inputs, bits, group_size=None, scale_dtype=None):
    check_inputs(weights, inputs)
    groups = split_groups(weights, group_size)
    out, G, size = groups.shape
    X = inputs.double().reshape(-1, G, size)
    full = absmax_scales(groups, bits)
    ratios = torch.tensor(
        [step / SHRINK_STEPS for step in range(SHRINK_STEPS, SHRINK_STEPS // 2 - 1, -1)], dtype=torch.float64
    )
    tried = (full * ratios).to(scale_dtype or full.dtype)  # (out, G, 11)
    errors = []
    for i in range(len(ratios)):
        s = tried[..., i : i + 1]
        off = round_to_codes(groups, s, bits).double() * s.double() - groups.double()
        errors.append(torch.einsum("ngi,ogi->ogn", X, off).pow(2).sum(-1))
    best = torch.stack(errors, dim=-1).argmin(dim=-1, keepdim=True)
    return tried.gather(-1, best).squeeze(-1)


# %% every group by itself
def shrunken_scales(weights, inputs, bits, group_size=None, scale_dtype=None):
    check_inputs(weights, inputs)
    groups = split_groups(weights, group_size)
    size, rows = groups.shape[-1], []
    for row in groups:
        rows.append([])
        for g, w in enumerate(row):
            x, s = inputs[:, g * size : (g + 1) * size].double(), absmax_scales(w, bits)
            best = None
            for step in range(SHRINK_STEPS, SHRINK_STEPS // 2 - 1, -1):
                tried = s * step / SHRINK_STEPS
                tried = tried.to(scale_dtype) if scale_dtype else tried
                off = w.double() - dequantize(round_to_codes(w, tried, bits), tried).double()
                error = (x @ off).square().sum().item()
                if best is None or error < best[0]:
                    best = error, tried
            rows[-1].append(best[1])
    return torch.stack([torch.cat(row) for row in rows])


# %% the best kept by a mask, smaller scales first
def shrunken_scales(weights, inputs, bits, group_size=None, scale_dtype=None):
    check_inputs(weights, inputs)
    groups = split_groups(weights, group_size)
    full = absmax_scales(groups, bits)
    X = inputs.double().unflatten(-1, groups.shape[1:])
    result = least = None
    for step in range(SHRINK_STEPS // 2, SHRINK_STEPS + 1):
        s = (full * (step / SHRINK_STEPS)).to(scale_dtype or full.dtype)
        off = round_to_codes(groups, s, bits).double() * s.double() - groups.double()
        error = torch.linalg.norm(torch.einsum("ngi,ogi->nog", X, off), dim=0)
        if result is None:
            result, least = s.clone(), error
        better = error <= least
        result[better], least = s[better], torch.where(better, error, least)
    return result[..., 0]


# %% NumPy inside
import numpy as np


def shrunken_scales(weights, inputs, bits, group_size=None, scale_dtype=None):
    check_inputs(weights, inputs)
    groups = split_groups(weights, group_size)
    full, W = absmax_scales(groups, bits), groups.double().numpy()
    X = inputs.double().numpy().reshape(len(inputs), *W.shape[1:])
    q, tried, errors = largest_code(bits), [], []
    for ratio in np.arange(20, 9, -1) / 20:
        s = (full * float(ratio)).to(scale_dtype or full.dtype)
        step = s.double().numpy()
        off = np.clip(np.rint(W / step), -q, q) * step - W
        tried.append(s[..., 0])
        errors.append(np.sum(np.einsum("ngi,ogi->ogn", X, off) ** 2, axis=-1))
    best = torch.from_numpy(np.argmin(np.stack(errors), axis=0))
    return torch.stack(tried).gather(0, best[None])[0]
