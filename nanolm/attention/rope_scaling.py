"""Rotary positions stretched beyond the context that a model was first trained on: the angles of each way.

With f_i = theta^(-2i/H) the speeds before, in radians a position, each way gives other speeds; two of them also make
cos and sin larger, so that scores grow with the context.

    linear        f / factor: all positions pressed together (Chen 2023)
    dynamic       theta grows with the text, once that is longer than the context (NTK-aware, "bloc97" 2023)
    yarn          fast pairs as before, slow ones pressed together, a ramp between (Peng 2023, section 3.2)
    llama3        the same with a smooth step in wavelengths (Llama 3.1's release, 2024)
    longrope      a factor a pair, found by search; other ones for long texts than for short (Ding 2024)
    proportional  only the first pairs turn
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ..rope_scaling import RopeScaling
from .rope import FIRST_TABLE, RotaryTable, Rotation


def scaled_speeds(H: int, theta: float, scaling: RopeScaling, n_positions: int) -> tuple[Float[Tensor, " half"], float]:
    """Return the radians a position by which each pair of a head turns, and what cos and sin are multiplied by.

    Args:
        H: numbers of a head, even.
        theta: as for `apply_rope`.
        n_positions: length of the text; it counts where `scaling.follows_length`.
    """
    speeds = theta ** (-torch.arange(0, H, 2, dtype=torch.float64) / H)
    factor = scaling.get("factor", 1.0)
    if scaling.kind == "linear":
        return speeds / factor, 1.0
    if scaling.kind == "dynamic":
        longer = max(n_positions, scaling.original) / scaling.original
        grown = theta * (factor * longer - (factor - 1)) ** (H / (H - 2))
        return grown ** (-torch.arange(0, H, 2, dtype=torch.float64) / H), 1.0
    if scaling.kind == "proportional":
        n_turning = int(scaling.get("partial_rotary_factor", 1.0) * H // 2)
        return torch.where(torch.arange(H // 2) < n_turning, speeds, 0.0) / factor, 1.0
    if scaling.kind == "llama3":
        return _llama3(speeds, scaling), 1.0
    if scaling.kind == "yarn":
        return _yarn(speeds, H, theta, scaling), _yarn_attention(scaling)
    which = "long_factor" if n_positions > scaling.original else "short_factor"
    return speeds / torch.tensor(scaling.get(which), dtype=torch.float64), _longrope_attention(scaling)


class ScaledRotaryTable(RotaryTable):
    """A RotaryTable of stretched positions."""

    def __init__(self, H: int, theta: float, scaling: RopeScaling) -> None:
        super().__init__(H, theta)
        self.scaling = scaling
        self._made_for = 0

    def rotation(self, offset: int | Tensor, T: int, n_positions: int, like: Tensor) -> Rotation:
        """As RotaryTable.rotation; where angles follow the length of the text, that length is `n_positions`."""
        if self.scaling.follows_length:
            length = max(n_positions, self.scaling.original)
            if self.scaling.kind == "longrope":
                length = min(length, self.scaling.original + 1)  # there are two sets of angles only
            if length != self._made_for:
                self._table, self._made_for = None, length
        return super().rotation(offset, T, n_positions, like)

    def _made(self, n_positions: int, like: Tensor) -> Rotation:
        size = max(FIRST_TABLE, 1 << (n_positions - 1).bit_length())
        speeds, factor = scaled_speeds(self.H, self.theta, self.scaling, n_positions)
        with torch.inference_mode(False), torch.no_grad():
            angles = torch.arange(size, dtype=torch.float64)[:, None] * speeds
            cos, sin = (factor * turned for turned in (angles.cos(), angles.sin()))
            return Rotation(cos.to(like.device, like.dtype), sin.to(like.device, like.dtype))


def rotary_table(H: int, theta: float, scaling: RopeScaling | None) -> RotaryTable:
    """Return the table of a model's angles."""
    return RotaryTable(H, theta) if scaling is None else ScaledRotaryTable(H, theta, scaling)


def _llama3(speeds: Tensor, scaling: RopeScaling) -> Tensor:
    factor, low, high = (scaling.get(name) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = scaling.original * speeds / (2 * math.pi)  # of each pair within the original context
    share = ((turns - low) / (high - low)).clamp(0, 1)  # 1: as before, 0: pressed together
    return share * speeds + (1 - share) * speeds / factor


def _yarn(speeds: Tensor, H: int, theta: float, scaling: RopeScaling) -> Tensor:
    factor = _yarn_factor(scaling)

    def pair_that_turns(times: float) -> float:
        return H * math.log(scaling.original / (times * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_that_turns(scaling.get("beta_fast", 32)), pair_that_turns(scaling.get("beta_slow", 1))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, H - 1)
    ramp = ((torch.arange(H // 2) - low) / (high - low if high != low else 0.001)).clamp(0, 1)
    return speeds / factor * ramp + speeds * (1 - ramp)


def _yarn_factor(scaling: RopeScaling) -> float:
    return scaling.get("factor", scaling.max_positions / scaling.original)


def _yarn_attention(scaling: RopeScaling) -> float:
    def grown(by: float) -> float:
        factor = _yarn_factor(scaling)
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0

    mscale, of_all = scaling.get("mscale"), scaling.get("mscale_all_dim")
    inferred = grown(mscale) / grown(of_all) if mscale and of_all else grown(1.0)
    return scaling.get("attention_factor", inferred)


def _longrope_attention(scaling: RopeScaling) -> float:
    factor = scaling.get("factor", scaling.max_positions / scaling.original)
    inferred = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(scaling.original))
    return scaling.get("attention_factor", inferred)
