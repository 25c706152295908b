"""Weights as codes and scales, and what they stand for."""

import torch
from by_hand import random
from torch import Tensor

from nanolm.quantization import pack_bits, quantize


def weights_of(
    out: int, D: int, bits: int, group_size: int | None = None, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes as a layer stores them, their scales, and in float64 the weights that the two stand for."""
    codes, scales = quantize(random(out, D, seed=seed), bits, group_size, torch.bfloat16)
    meant = codes.double() * scales.double().repeat_interleave(group_size or D, dim=1)
    return codes if bits == 8 else pack_bits(codes, bits), scales, meant
