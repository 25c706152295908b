"""Products whose sums are taken in an order that no batch can change: two ways to have them.

A library decides by the shape of the whole call how it adds a row's products up. So what one request gets depends, in
its last bits, on how many others are in the batch.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

# Rows of so many numbers all begin at multiples of 64 bytes. Where they do not (D = 7, 33 or 77, in float64 also 129),
# MKL gives a row other last bits by its place in the tile; where they do, it never did: 690,000 rows of 21 shapes were
# compared, in batches of 2 to 512, with one thread, by MKL's code for AVX-512, AVX2 and SSE4.2.
_ALIGNED = 16


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
    Rows whose length is no multiple of 16 are filled up with zeros too, so that all begin at addresses of one kind.
    Whether a row's place within the tile matters then is up to the library: measure it.

    Raises:
        ValueError: rows below 1.
    """
    if rows < 1:
        raise ValueError(f"rows is {rows}; a tile has at least 1 row")
    flat = x.reshape(-1, x.shape[-1])
    short = -x.shape[-1] % _ALIGNED
    weight = F.pad(weight, (0, short)) if short else weight
    tiles = F.pad(flat, (0, short, 0, -len(flat) % rows)).split(rows)  # copied even if full: x may begin anywhere
    return torch.cat([F.linear(tile, weight) for tile in tiles])[: len(flat)].view(*x.shape[:-1], len(weight))
