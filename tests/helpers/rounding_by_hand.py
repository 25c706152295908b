"""Rounding written another way than in the engine, for the tests of quantization."""

import torch
from by_hand import random
from torch import Tensor, nn

LARGEST = {2: 1, 3: 3, 4: 7, 5: 15, 6: 31, 7: 63, 8: 127}


def codes_by_hand(row, bits):
    """One row in plain Python: (codes, scale). `round` takes the even neighbour of a half, as torch does."""
    scale = max(abs(w) for w in row) / LARGEST[bits] or 1.0
    return [round(w / scale) for w in row], scale


def rounded(weights: Tensor, bits: int, group_size: int | None = None, scale_dtype=None) -> Tensor:
    """The float64 matrix with each weight at the nearest multiple of its group's step."""
    q, groups = LARGEST[bits], weights.view(len(weights), -1, group_size or weights.shape[1])
    step = groups.abs().amax(-1, keepdim=True) / q
    step = step.float().to(scale_dtype).double() if scale_dtype else step
    return ((groups / step).round().clamp(-q, q) * step).view(weights.shape)


def rounded_layer(linear: nn.Linear, bits: int, group_size: int | None = None) -> nn.Linear:
    """The float64 layer with rounded weights, the steps stored in bfloat16 as layers store them; the bias as it was."""
    other = nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)
    other = other.double().requires_grad_(False)
    other.weight.copy_(rounded(linear.weight, bits, group_size, torch.bfloat16))
    if linear.bias is not None:
        other.bias.copy_(linear.bias)
    return other


def nearest(column: Tensor, step: Tensor, bits: int) -> Tensor:
    """Each number at its nearest multiple of the step, held within -q … q steps."""
    return (column / step).round().clamp(-LARGEST[bits], LARGEST[bits]) * step


def restored(codes: Tensor, scales: Tensor) -> Tensor:
    """Code · scale, each scale for as many neighbours as fall to it."""
    return codes.double() * scales.double().repeat_interleave(codes.shape[1] // scales.shape[1], dim=1)


def correlated_inputs(n: int = 512, D: int = 48, seed: int = 0, spread: float = 1.0) -> Tensor:
    """Inputs as layers meet them: a few common causes, a little noise, and some channels much larger than others."""
    causes, mix = random(n, 12, seed=seed), random(12, D, seed=seed + 1)
    size = torch.exp(spread * random(D, seed=seed + 2))
    return (causes @ mix + 0.3 * random(n, D, seed=seed + 3)) * size


def error_of(weights: Tensor, approximation: Tensor, inputs: Tensor) -> float:
    """Root of the summed squares of what the outputs move, relative to the outputs."""
    return (((inputs @ (weights - approximation).T) ** 2).sum() / ((inputs @ weights.T) ** 2).sum()).sqrt().item()


def channel_scales_grid(
    weights: Tensor, inputs: Tensor, bits: int, group_size: int | None = None
) -> list[tuple[float, Tensor]]:
    """All 21 candidates: (error of the outputs, channel scales), by α."""
    return [(moved(weights, inputs, bits, group_size, c), c) for c in candidates(inputs.abs().mean(dim=0))]


def candidates(m: Tensor) -> list[Tensor]:
    """m^α for α = 0, 1/20, …, 1, divided by √(largest · smallest); what is 0 counts as a thousandth of the largest."""
    m = m.clamp(min=m.max() / 1000)
    powers = [m ** (step / 20) for step in range(21)]
    return [c / (c.max() * c.min()) ** 0.5 for c in powers]


def moved(weights: Tensor, inputs: Tensor, bits: int, group_size: int | None, c: Tensor) -> float:
    """How much the outputs move when the weights are multiplied by c, rounded, and divided again."""
    return error_of(weights, rounded(weights * c, bits, group_size) / c, inputs)


def shrunken_by_hand(
    weights: Tensor,
    inputs: Tensor,
    bits: int,
    group_size: int | None = None,
    steps=range(20, 9, -1),
    worst: bool = False,
    stored=None,
) -> Tensor:
    """Every group of every row by itself: of these 20ths of absmax the one that moves its outputs least."""
    size = group_size or weights.shape[1]
    result = torch.zeros(len(weights), weights.shape[1] // size, dtype=torch.float64)
    for row in range(len(weights)):
        for g in range(result.shape[1]):
            w, x = weights[row, g * size : (g + 1) * size], inputs[:, g * size : (g + 1) * size]
            tried = []
            for step in steps:
                scale = (w.abs().max() / LARGEST[bits] * (step / 20)).to(stored or w.dtype).double()
                error = ((x @ (nearest(w, scale, bits) - w)) ** 2).sum().item()
                tried.append((-error if worst else error, -step, scale))
            result[row, g] = min(tried)[2]
    return result
