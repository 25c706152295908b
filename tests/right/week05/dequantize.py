# %% each scale repeated for its neighbours
def dequantize(codes, scales):
    D, G = codes.shape[-1], scales.shape[-1]
    if G == 0 or D % G != 0:
        raise ValueError(f"{G} scales for {D} codes")
    return (
        codes.float() * scales.float().repeat_interleave(D // G, dim=-1)
        if scales.dtype != torch.float64
        else (codes.double() * scales.repeat_interleave(D // G, dim=-1))
    )


# %% views and a batch of outer sizes
def dequantize(codes, scales):
    D, G = codes.shape[-1], scales.shape[-1]
    if not G or D % G:
        raise ValueError("the scales must share the codes of a row out evenly")
    s = at_least_float32(scales)
    groups = codes.to(s.dtype).reshape(*codes.shape[:-1], G, D // G)
    return (groups * s[..., None]).reshape(codes.shape)


# %% a loop over groups
def dequantize(codes, scales):
    D, G = codes.shape[-1], scales.shape[-1]
    if G < 1 or D / G != D // G:
        raise ValueError("scales do not divide the row")
    size, scales = D // G, at_least_float32(scales)
    parts = [codes[..., g * size : (g + 1) * size].to(scales.dtype) * scales[..., g : g + 1] for g in range(G)]
    return torch.cat(parts, dim=-1)


# %% NumPy inside
import numpy as np


def dequantize(codes, scales):
    D, G = codes.shape[-1], scales.shape[-1]
    if G == 0 or D % G:
        raise ValueError("scales: as many as divide the codes of a row")
    s = np.repeat(at_least_float32(scales).numpy(), D // G, axis=-1)
    return torch.from_numpy(codes.numpy().astype(s.dtype) * s)


# %% einsum, rows flattened
def dequantize(codes, scales):
    D, G = codes.shape[-1], scales.shape[-1]
    if not G or D % G:
        raise ValueError("scales: G must divide D")
    s = at_least_float32(scales).expand(*codes.shape[:-1], G)
    groups = codes.unflatten(-1, (G, -1)).to(s.dtype)
    return torch.einsum("...gi,...g->...gi", groups, s).flatten(-2)
