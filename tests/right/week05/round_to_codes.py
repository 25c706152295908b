# %% torch.round and torch.clamp as functions
def round_to_codes(weights, scales, bits):
    q = largest_code(bits)
    quotient = torch.div(weights.to(torch.promote_types(weights.dtype, torch.float32)), scales)
    return torch.clamp(torch.round(quotient), min=-q, max=q).to(dtype=torch.int8)


# %% rint and clip of NumPy
import numpy as np


def round_to_codes(weights, scales, bits):
    q = largest_code(bits)
    w, s = at_least_float32(weights).numpy(), at_least_float32(scales).numpy()
    return torch.from_numpy(np.clip(np.rint(w / s), -q, q).astype(np.int8))


# %% round of Python, number by number
def round_to_codes(weights, scales, bits):
    q = largest_code(bits)
    quotients = at_least_float32(weights) / scales
    codes = [max(-q, min(q, round(x))) for x in quotients.flatten().tolist()]
    return torch.tensor(codes, dtype=torch.int8).reshape(quotients.shape)


# %% clamped first, rounded after
def round_to_codes(weights, scales, bits):
    q = largest_code(bits)
    inside = (at_least_float32(weights) / scales).clamp(-q, q)
    down = inside.floor()
    up = (inside - down > 0.5) | ((inside - down == 0.5) & (down % 2 == 1))
    return (down + up).char()


# %% everything in float64, with where
def round_to_codes(weights, scales, bits):
    q = largest_code(bits)
    c = (weights.double() / scales.double()).round()
    c = torch.where(c > q, q, c)
    c = torch.where(c < -q, -q, c)
    return c.to(torch.int8)
