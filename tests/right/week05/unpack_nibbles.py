# %% written into every second place
def unpack_nibbles(packed):
    codes = torch.empty(*packed.shape[:-1], 2 * packed.shape[-1], dtype=torch.int8)
    codes[..., ::2] = (packed & 15).to(torch.int8) - 8
    codes[..., 1::2] = (packed // 16).to(torch.int8) - 8
    return codes


# %% a loop over bytes
def unpack_nibbles(packed):
    codes = []
    for byte in packed.flatten().tolist():
        high, low = divmod(byte, 16)
        codes += [low - 8, high - 8]
    return torch.tensor(codes, dtype=torch.int8).reshape(*packed.shape[:-1], -1)


# %% a table of all 256 bytes
PAIRS = torch.tensor([[byte % 16 - 8, byte // 16 - 8] for byte in range(256)], dtype=torch.int8)


def unpack_nibbles(packed):
    return PAIRS[packed.long()].flatten(start_dim=-2)


# %% NumPy inside
import numpy as np


def unpack_nibbles(packed):
    p = packed.numpy().astype(np.int16)
    both = np.stack([p % 16, p >> 4], axis=-1) - 8
    return torch.from_numpy(both.reshape(*p.shape[:-1], -1).astype(np.int8))


# %% the general unpacking
def unpack_nibbles(packed):
    halves = torch.tensor([0, 4], dtype=torch.uint8)
    return ((packed.unsqueeze(-1) >> halves).remainder(16).short() - 8).char().reshape(*packed.shape[:-1], -1)
