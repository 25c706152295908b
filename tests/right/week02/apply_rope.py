# %% complex numbers
def apply_rope(x, offset, theta=10_000.0):
    a, b = x.split(x.shape[-1] // 2, dim=-1)
    if isinstance(offset, Rotation):
        turn = torch.complex(offset.cos, offset.sin)
    else:
        positions = positions_of(offset, x.shape[2])
        angles = positions[..., None].double() * rates(x.shape[-1], theta)
        turn = torch.polar(torch.ones_like(angles), angles)
        if turn.dim() == 3:
            turn = turn[:, None]
    turned = torch.complex(a.double(), b.double()) * turn
    return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


def rates(H, theta):
    return torch.tensor([theta ** (-2 * i / H) for i in range(H // 2)], dtype=torch.float64)


# %% rotate_half, as Llama's own code has it
def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def apply_rope(x, offset, theta=10_000.0):
    if isinstance(offset, Rotation):
        cos, sin = offset.cos, offset.sin
    else:
        if isinstance(offset, int):
            if offset < 0:
                raise ValueError(f"offset must not be negative, got {offset}")
            positions = torch.arange(x.size(2)) + offset
        elif offset.dim() == 1:
            positions = offset.unsqueeze(1) + torch.arange(x.size(2))
        else:
            positions = offset
        inverse = 1.0 / theta ** (torch.arange(0, x.size(-1), 2, dtype=torch.float64) / x.size(-1))
        angles = torch.einsum("...t,i->...ti", positions.to(torch.float64), inverse)
        if angles.dim() == 3:
            angles = angles[:, None, :, :]
        cos, sin = torch.cos(angles), torch.sin(angles)
    cos = torch.cat((cos, cos), dim=-1).to(x.dtype)
    sin = torch.cat((sin, sin), dim=-1).to(x.dtype)
    return x * cos + rotate_half(x) * sin


# %% loops over rows, positions and pairs
def apply_rope(x, offset, theta=10_000.0):
    B, N, T, H = x.shape
    if isinstance(offset, int) and offset < 0:
        raise ValueError("offset")
    result = x.clone()
    for b in range(B):
        for t in range(T):
            for i in range(H // 2):
                if isinstance(offset, Rotation):
                    cos, sin = (p[(b if len(p) > 1 else 0), 0] if p.dim() == 4 else p for p in offset)
                    c, s = cos[t, i].item(), sin[t, i].item()
                else:
                    if isinstance(offset, int):
                        position = offset + t
                    elif offset.dim() == 1:
                        position = int(offset[b]) + t
                    else:
                        position = int(offset[b if len(offset) > 1 else 0, t])
                    angle = position * theta ** (-2 * i / H)
                    c, s = math.cos(angle), math.sin(angle)
                left, right = x[b, :, t, i], x[b, :, t, i + H // 2]
                result[b, :, t, i] = left * c - right * s
                result[b, :, t, i + H // 2] = left * s + right * c
    return result


# %% numpy inside
def apply_rope(x, offset, theta=10_000.0):
    half = x.shape[-1] // 2
    if isinstance(offset, Rotation):
        cos, sin = (part.to(torch.float64).numpy() for part in offset)
    else:
        positions = positions_of(offset, x.shape[2]).numpy().astype(np.float64)
        angles = np.multiply.outer(positions, np.power(float(theta), -np.arange(half) / half))
        if angles.ndim == 3:
            angles = np.expand_dims(angles, 1)
        cos, sin = np.cos(angles), np.sin(angles)
    numbers = x.detach().to(torch.float64).numpy()
    a, b = numbers[..., :half], numbers[..., half:]
    return torch.from_numpy(np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)).to(x.dtype)


# %% one 2 x 2 matrix a pair, written into a result of its own
def apply_rope(x, offset, theta=10_000.0):
    T, H = x.shape[2:]
    if isinstance(offset, Rotation):
        cos, sin = offset
    else:
        positions = positions_of(offset, T)
        angles = positions[..., None] * torch.pow(theta, torch.arange(H // 2, dtype=torch.float64) * (-2 / H))
        angles = angles[:, None] if angles.ndim == 3 else angles
        cos, sin = angles.cos(), angles.sin()
    matrix = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2).to(x.dtype)
    pairs = x.unflatten(-1, (2, H // 2)).transpose(-1, -2).unsqueeze(-1)
    out = torch.empty_like(x)
    out[:] = (matrix @ pairs).squeeze(-1).transpose(-1, -2).flatten(-2)
    return out
