# %% a row made and undone by reshape
def quantize_tensor(weights, bits):
    codes, scales = quantize(weights.reshape(1, -1), bits)
    return codes.reshape(weights.shape), scales.reshape(1)


# %% the two parts called by name
def quantize_tensor(weights, bits):
    scale = absmax_scales(weights.flatten(), bits)
    return round_to_codes(weights, scale, bits), scale


# %% the largest of the rows' scales
def quantize_tensor(weights, bits):
    rows = absmax_scales(weights.reshape(-1, weights.shape[-1]), bits)
    nothing = bool((weights == 0).all())
    scale = (
        torch.ones(1, dtype=rows.dtype)
        if nothing
        else (at_least_float32(weights).abs().max() / largest_code(bits))[None]
    )
    return round_to_codes(weights, scale, bits), scale


# %% by hand, codes in a list
def quantize_tensor(weights, bits):
    q = largest_code(bits)
    check_finite(weights)
    w = at_least_float32(weights)
    s = float(w.abs().max()) / q or 1.0
    codes = torch.tensor([max(-q, min(q, round(x / s))) for x in w.flatten().tolist()], dtype=torch.int8)
    return codes.view_as(weights), torch.tensor([s], dtype=w.dtype)
