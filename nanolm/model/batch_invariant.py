"""Linear layers whose sums are taken in an order that no batch can change.

A library decides by the shape of the whole call how it adds a row's products up. So the logits of one request depend,
in their last bits, on how many others are in the batch. Here are two ways out, and a model that takes either.
"""

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from .decoder import NanoLM
from .expert_layers import separate_experts

MultiplyRows = Callable[[Tensor, Tensor], Tensor]


def tree_linear(x: Float[Tensor, "... D"], weight: Float[Tensor, "out D"]) -> Float[Tensor, "... out"]:
    """Return x · weightᵀ, the D products of an output added by halves: the first half to the second, until one is left.

    Where a count is odd, its last one waits for the next round. Each step is a single multiplication or addition a
    number, and IEEE 754 allows only one rounding of those: the result is the same to the last bit in any batch, at any
    place in it and on any machine. The price is that all products are written to memory, out · D a row.
    """
    terms = x.unsqueeze(-2) * weight  # (..., out, D)
    while (left := terms.shape[-1]) > 1:
        half = left // 2
        sums = terms[..., :half] + terms[..., half : 2 * half]
        terms = torch.cat([sums, terms[..., -1:]], dim=-1) if left % 2 else sums
    return terms[..., 0]


def tile_linear(x: Float[Tensor, "... D"], weight: Float[Tensor, "out D"], rows: int = 16) -> Float[Tensor, "... out"]:
    """Return x · weightᵀ, the library called with exactly `rows` rows each time, the last call filled up with zeros.

    The library sees one shape only and so keeps to one order, which is how kernels that promise batch invariance work.
    Whether a row's place within the tile matters is up to the library: measure it.

    Raises:
        ValueError: rows below 1.
    """
    if rows < 1:
        raise ValueError(f"rows is {rows}; a tile has at least 1 row")
    flat = x.reshape(-1, x.shape[-1])
    tiles = F.pad(flat, (0, 0, 0, -len(flat) % rows)).split(rows)
    return torch.cat([F.linear(tile, weight) for tile in tiles])[: len(flat)].view(*x.shape[:-1], len(weight))


class RowsLinear(nn.Module):
    """An nn.Linear without bias that multiplies by a function of (x, weight)."""

    def __init__(self, weight: Tensor, multiply: MultiplyRows) -> None:
        super().__init__()
        self.weight, self.multiply = weight, multiply

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... out"]:
        """Return the products with the weight's rows."""
        return self.multiply(x, self.weight)


def with_linear(model: NanoLM, multiply: MultiplyRows) -> NanoLM:
    """Return a model of the same weights (shared, not copied) whose linear layers, the head too, call `multiply`."""
    other = copy.deepcopy(model, {id(weight): weight for weight in model.parameters()})
    separate_experts(other)
    layers = [(name, layer) for name, layer in other.named_modules() if isinstance(layer, nn.Linear)]
    for name, layer in layers:
        other.set_submodule(name, RowsLinear(layer.weight, multiply))
    return other
