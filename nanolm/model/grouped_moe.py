"""A mixture of experts without waiting for the host: how many rows each expert gets never leaves the device.

`MoE` asks which experts were chosen, and a GPU would stand still until the answer is there: twice in every layer. Here
offsets on the device take the answer's place, and one product runs all experts (`grouped_matmul`).
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ..kernels.backend import Backend, uses_triton
from ..kernels.checks import require_alike, require_dims, require_indices, require_one_device
from .expert_layers import StackedLinear
from .moe import MoE

MOST_EXPERTS = 4096  # whose offsets a program can look at all at once


def grouped_matmul(
    x: Float[Tensor, "P D"],
    weights: Float[Tensor, "E F D"],
    offsets: Int[Tensor, "bounds"],
    backend: Backend | None = None,
    check: bool | None = None,
) -> Float[Tensor, "P F"]:
    """Return x[p] · weights[e]ᵀ for every row p, where e is the expert with offsets[e] ≤ p < offsets[e + 1].

    The torch path takes one product for each expert that has rows, and reads the offsets on the host. Triton's kernel
    reads them on the device, reads the weights of no other expert, and sums in float32.

    Args:
        x: rows sorted by expert.
        weights: one (F, D) matrix an expert, as F.linear takes it.
        offsets: E + 1 numbers, where the rows of each expert begin, and at last P.
        backend: who computes; None leaves it to `set_backend`.
        check: look at the numbers in offsets (`check_offsets`). None: on a CPU yes, on a GPU no, where the host would
            have to wait for them. Unchecked, wrong offsets leave rows without a result, or read any memory there is.

    Raises:
        ValueError: shapes that do not fit; different dtypes or devices; where checked, what `check_offsets`
            refuses.
        KernelUnavailable: "triton" was chosen and cannot compute this.

    Source: Gale 2022 ("MegaBlocks"), section 4.
    """
    require_dims(2, "(P, D)", x=x)
    require_dims(3, "(E, F, D)", weights=weights)
    (P, D), (E, _, _) = x.shape, weights.shape
    if weights.shape[2] != D:
        raise ValueError(f"weights has shape {tuple(weights.shape)}; it must be (E, F, D) with x's D = {D}")
    if offsets.shape != (E + 1,):
        raise ValueError(f"offsets has shape {tuple(offsets.shape)}; {E} experts need ({E + 1},)")
    require_alike(x=x, weights=weights)
    require_indices(offsets=offsets)
    require_one_device(x=x, offsets=offsets)
    if check or (check is None and not offsets.is_cuda):
        check_offsets(offsets, P)
    too_many = f"there are {E} experts, and it takes up to {MOST_EXPERTS}" if E > MOST_EXPERTS else None
    if x.numel() and weights.numel() and uses_triton(backend, too_many, x=x, weights=weights, offsets=offsets):
        from ..kernels.triton_grouped import grouped_product

        return grouped_product(x, weights, offsets)
    return _by_loop(x, weights, offsets.tolist())


def check_offsets(offsets: Int[Tensor, "bounds"], P: int) -> None:
    """Raise a ValueError unless the offsets run from 0 to P and never fall."""
    bounds = offsets.tolist()
    if bounds[0] != 0 or bounds[-1] != P:
        raise ValueError(f"offsets runs from {bounds[0]} to {bounds[-1]}; it must run from 0 to P = {P}")
    falls = [i for i, (one, following) in enumerate(pairwise(bounds)) if following < one]
    if falls:
        i = falls[0]
        raise ValueError(f"offsets falls from {bounds[i]} to {bounds[i + 1]} at {i}; an expert has 0 rows or more")


def _by_loop(x: Tensor, weights: Tensor, bounds: list[int]) -> Tensor:
    out = x.new_empty(len(x), weights.shape[1])
    for expert, (first, last) in enumerate(pairwise(bounds)):
        if last > first:
            out[first:last] = F.linear(x[first:last], weights[expert])
    return out


class GroupedMoE(MoE):
    """As MoE, and with the same weights; all experts in one product wherever Triton's kernel computes it.

    Elsewhere (on a CPU, in training, with quantized experts) it is MoE. Logits that are NaN or infinite are refused by
    MoE; in the one product nobody looks at them, and they end in the output.

    Attributes:
        fast: False computes as MoE does.
    """

    fast = True

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the feed-forward output, each position on its own."""
        if not self.fast or not isinstance(self.gate_up, StackedLinear):  # quantized: one expert at a time
            return super().forward(x)
        rows, k = x.flatten(0, 1), self.experts_per_token
        if not uses_triton(None, x=rows, gate_up=self.gate_up.weight, down=self.down.weight):
            return super().forward(x)
        best, experts = self.router(rows).sort(dim=-1, descending=True, stable=True)
        shares, chosen = best[:, :k].softmax(dim=-1), experts[:, :k].flatten()
        order = chosen.argsort(stable=True)  # the P·k choices, those of one expert together
        offsets = torch.searchsorted(chosen[order], torch.arange(self.n_experts + 1, device=x.device))
        gate, up = grouped_matmul(rows[order // k], self.gate_up.weight, offsets, check=False).chunk(2, dim=-1)
        y = grouped_matmul(F.silu(gate) * up, self.down.weight, offsets, check=False)
        y = y[order.argsort()].unflatten(0, (-1, k))  # each choice back in its place, (P, k, D)
        return (y * shares.unsqueeze(-1)).sum(dim=1).view_as(x)
