"""Rotary position embedding: a position is an angle, so that only distances between positions matter.

Su et al. 2021 (RoFormer), section 3.2, in the half-split layout of Llama checkpoints: number i of a head is
paired with number i + H/2, and the pair turns by position · theta^(-2i/H) radians.
"""

from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

_FIRST_TABLE = 1024  # positions; a longer request doubles it


def apply_rope(x: Float[Tensor, "B N T H"], offset: int | Tensor, theta: float = 10_000.0) -> Float[Tensor, "B N T H"]:
    """Return x with every head vector turned by the angle of its position.

    The T vectors stand at positions offset, offset + 1, …, offset + T - 1, where offset is the number of tokens
    already in the cache. With a, b the two halves of a head vector at position t and φᵢ = t · theta^(-2i/H),
    the result is (a·cos φ - b·sin φ, b·cos φ + a·sin φ).

    Args:
        x: queries or keys, (B, N, T, H), H even.
        offset: position of x[:, :, 0]; an int at or above 0, or one per row as an integer tensor of shape (B,).
        theta: the slowest pair turns once in about 2π·theta positions.

    Raises:
        ValueError: a negative int offset.
    """
    cos, sin = _angles(x, offset, theta)
    # With sin already negated in its first half, one roll pairs each number with its partner:
    # (a, b)·cos + (b, a)·(-sin, sin). Three operations where the textbook form takes seven.
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)


def rotary_table(
    H: int, theta: float, n_positions: int, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "positions H"], Float[Tensor, "positions H"]]:
    """Return cos and sin of the angle of every number at positions 0 … n_positions - 1, or a few more.

    For passes whose positions are no range. sin is negated in its first half, which makes a turn of x
    `x * cos + x.roll(H // 2, dims=-1) * sin`.
    """
    return _table(H, theta, _table_size(n_positions), dtype, device)


def _angles(x: Tensor, offset: int | Tensor, theta: float) -> tuple[Tensor, Tensor]:
    """cos and sin of the angle of every number of x, (T, H) or (B, 1, T, H); sin is negated in its first half."""
    T, H = x.shape[-2:]
    if isinstance(offset, Tensor):
        positions = offset[:, None] + torch.arange(T, device=x.device)  # (B, T)
        cos, sin = _table(H, theta, _table_size(_largest(offset) + T), x.dtype, x.device)
        return cos[positions].unsqueeze(1), sin[positions].unsqueeze(1)  # (B, 1, T, H)
    if offset < 0:
        raise ValueError(f"offset is {offset}; it counts the tokens before this pass, so it must be 0 or more")
    return _rows(H, theta, offset, T, x.dtype, x.device)


def _largest(offset: Tensor) -> int:
    # A tensor's number is known to the host only after a GPU has finished all it was given, here in every layer. Who
    # made the tensor from numbers (RaggedKVCache) has noted their largest on it.
    noted = getattr(offset, "largest", None)
    return int(offset.max()) if noted is None else noted


@lru_cache(maxsize=8)  # every layer of a pass asks for the same rows
def _rows(H: int, theta: float, offset: int, T: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    cos, sin = _table(H, theta, _table_size(offset + T), dtype, device)
    with torch.inference_mode(False):
        return cos[offset : offset + T], sin[offset : offset + T]  # (T, H)


def _table_size(positions: int) -> int:
    return max(_FIRST_TABLE, 1 << (positions - 1).bit_length())


@lru_cache(maxsize=64)
def _table(H: int, theta: float, size: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sign-folded sin of every position, (size, H) each, computed once in float64."""
    # A table first made inside inference_mode could never be used in training: leave that mode to make it.
    with torch.inference_mode(False):
        frequencies = theta ** (-torch.arange(0, H, 2, dtype=torch.float64) / H)  # (H/2,)
        angles = torch.outer(torch.arange(size, dtype=torch.float64), frequencies)  # (size, H/2)
        cos = torch.cat([angles.cos(), angles.cos()], dim=-1)
        sin = torch.cat([-angles.sin(), angles.sin()], dim=-1)
        return cos.to(device, dtype), sin.to(device, dtype)
