"""Rotary position embedding: a position is an angle, so that only distances between positions matter.

Su et al. 2021 (RoFormer), section 3.2, in the half-split layout of Llama checkpoints: number i of a head is
paired with number i + H/2, and the pair turns by position · theta^(-2i/H) radians.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

FIRST_TABLE = 1024  # positions; a longer text doubles it


class Rotation(NamedTuple):
    """cos and sin of the angle of each pair of a head, at the positions of one pass.

    Both are (T, H/2), or (B, 1, T, H/2) where the rows stand at positions of their own.
    """

    cos: Float[Tensor, "... T half"]
    sin: Float[Tensor, "... T half"]


Offset = int | Tensor | Rotation


def apply_rope(x: Float[Tensor, "B N T H"], offset: Offset, theta: float = 10_000.0) -> Float[Tensor, "B N T H"]:
    """Return x with every head vector turned by the angle of its position, in x's dtype.

    The T vectors stand at positions offset, offset + 1, …, offset + T - 1, where offset is the number of tokens
    already in the cache. With a, b the two halves of a head vector at position t and φᵢ = t · theta^(-2i/H),
    the result is (a·cos φ - b·sin φ, b·cos φ + a·sin φ). Angles are computed in float64: at position 30,000 float32
    would be off by a thousandth of a radian.

    Args:
        x: queries or keys, (B, N, T, H), H even.
        offset: position of x[:, :, 0], an int at or above 0; or one a row, an integer tensor (B,); or every position
            by itself, (B, T), or (1, T) where the rows stand alike. Or a Rotation: cos and sin that somebody has
            looked up already, used as they are.
        theta: the slowest pair turns once in about 2π·theta positions.

    Raises:
        ValueError: a negative int offset.
    """
    if isinstance(offset, Rotation):
        cos, sin = offset
    else:
        T, H = x.shape[2:]
        speeds = theta ** (-torch.arange(0, H, 2, dtype=torch.float64) / H)  # radians a position, (H/2,)
        positions = positions_of(offset, T).cpu()  # not every device has float64
        angles = positions.unsqueeze(-1) * speeds  # (T, H/2) or (B, T, H/2)
        angles = angles.unsqueeze(1) if angles.ndim == 3 else angles
        cos, sin = angles.cos().to(x), angles.sin().to(x)
    a, b = x.chunk(2, dim=-1)
    first = torch.addcmul(a * cos, b, sin, value=-1)  # a·cos φ - b·sin φ
    second = torch.addcmul(b * cos, a, sin)  # b·cos φ + a·sin φ
    return torch.cat([first, second], dim=-1)


def positions_of(offset: int | Tensor, T: int) -> Int[Tensor, "..."]:
    """Return the position of every vector: (T,) from an int, (B, T) from one offset a row; (B, T) stays as it is.

    Raises:
        ValueError: a negative int.
    """
    if isinstance(offset, Tensor):
        return offset if offset.ndim == 2 else offset[:, None] + torch.arange(T, device=offset.device)
    if offset < 0:
        raise ValueError(f"offset is {offset}; it counts the tokens before this pass, so it must be 0 or more")
    return torch.arange(offset, offset + T)


class RotaryTable:
    """The angles of all positions so far asked for, computed once: a pass looks its own up, and all layers share them.

    Args:
        H: numbers of a head that are rotated, even.
        theta: as for `apply_rope`.
    """

    def __init__(self, H: int, theta: float) -> None:
        self.H, self.theta = H, theta
        self._table: Rotation | None = None

    def rotation(self, offset: int | Tensor, T: int, n_positions: int, like: Tensor) -> Rotation:
        """Return cos and sin of T positions from `offset` on, in the dtype and on the device of `like`.

        Args:
            offset: as for `apply_rope`, a Rotation excepted.
            n_positions: no position is at or above it. The host knows it; to ask a tensor would make a GPU wait.
        """
        table = self._table
        if table is None or len(table.cos) < n_positions or not _alike(table.cos, like):
            table = self._table = self._made(n_positions, like)
        if isinstance(offset, int):
            return Rotation(table.cos[offset : offset + T], table.sin[offset : offset + T])
        positions = positions_of(offset, T)
        return Rotation(table.cos[positions].unsqueeze(1), table.sin[positions].unsqueeze(1))

    def _made(self, n_positions: int, like: Tensor) -> Rotation:
        size = max(FIRST_TABLE, 1 << (n_positions - 1).bit_length())
        # A table made inside inference_mode could never be used in training: leave that mode to make it.
        with torch.inference_mode(False), torch.no_grad():
            right = torch.zeros(1, 1, size, self.H, dtype=torch.float64)
            right[..., : self.H // 2] = 1.0  # (1, 0) turned by φ is (cos φ, sin φ)
            cos, sin = apply_rope(right, 0, self.theta)[0, 0].to(like.device, like.dtype).chunk(2, dim=-1)
            return Rotation(cos, sin)


def _alike(x: Tensor, y: Tensor) -> bool:
    return x.dtype == y.dtype and x.device == y.device
