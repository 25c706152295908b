# %% group by group
def quantize(weights, bits, group_size=None, scale_dtype=None):
    groups = split_groups(weights, group_size)
    codes, scales = [], []
    for g in range(groups.shape[-2]):
        group = groups[..., g, :]
        s = absmax_scales(group, bits)
        if scale_dtype is not None:
            s = s.to(scale_dtype)
        codes.append(round_to_codes(group, s, bits))
        scales.append(s)
    return torch.cat(codes, dim=-1), torch.cat(scales, dim=-1)


# %% all of it by hand, without the helpers
def quantize(weights, bits, group_size=None, scale_dtype=None):
    q = largest_code(bits)
    if not weights.numel():
        raise ValueError("no weights")
    D = weights.shape[-1]
    size = D if group_size is None else group_size
    if size != int(size) or size < 1 or D % size:
        raise ValueError("group_size does not divide the row")
    if not bool(torch.isfinite(weights).all()):
        raise ValueError("weights must be finite")
    w = weights.reshape(*weights.shape[:-1], D // size, size)
    w = w if w.dtype == torch.float64 else w.float()
    s = w.abs().max(dim=-1)[0] / q
    s[s == 0] = 1
    if scale_dtype:
        s = s.to(scale_dtype)
    c = torch.round(w / s.unsqueeze(-1).to(w.dtype)).clamp(-q, q).to(torch.int8)
    return c.reshape(weights.shape), s


# %% recursion: a group is a row
def quantize(weights, bits, group_size=None, scale_dtype=None):
    if group_size is None:
        split_groups(weights, None)
        scales = absmax_scales(weights, bits)
        scales = scales if scale_dtype is None else scales.to(scale_dtype)
        return round_to_codes(weights, scales, bits), scales
    codes, scales = quantize(split_groups(weights, group_size), bits, None, scale_dtype)
    return codes.reshape(weights.shape), scales[..., 0]


# %% a list, and scales read from a view
def quantize(weights, bits, group_size=None, scale_dtype=None):
    groups = split_groups(weights, group_size=group_size)
    print(f"{groups.shape[-2]} groups")
    scales = absmax_scales(weights=groups, bits=bits)
    stored = scales.type(scale_dtype) if scale_dtype else scales
    codes = round_to_codes(weights=groups, scales=stored, bits=bits)
    return [codes.reshape(weights.shape), stored.view(*stored.shape[:-1])]


# %% NumPy inside
import numpy as np


def quantize(weights, bits, group_size=None, scale_dtype=None):
    q, groups = largest_code(bits), split_groups(weights, group_size)
    check_finite(weights)
    w = at_least_float32(groups).numpy()
    s = np.abs(w).max(axis=-1, keepdims=True) / q
    s = torch.from_numpy(np.where(s > 0, s, 1).astype(w.dtype))
    s = s.to(scale_dtype or s.dtype)
    c = np.clip(np.rint(w / at_least_float32(s).numpy()), -q, q).astype(np.int8)
    return torch.from_numpy(c).flatten(-2), s.squeeze(-1)
