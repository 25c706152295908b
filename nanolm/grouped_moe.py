"""A mixture of experts without waiting for the host: how many rows each expert gets never leaves the device.

`MoE` asks which experts were chosen, and a GPU would stand still until the answer is there: twice in every layer. Here
offsets on the device take the answer's place, and one product runs all experts (`kernels.grouped_matmul`).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from .kernels import grouped_matmul
from .kernels.choice import computes
from .moe import MoE, StackedLinear


class GroupedMoE(MoE):
    """As MoE, and with the same weights; all experts in one product wherever Triton's kernel computes it.

    Elsewhere (on a CPU, in training, with quantized experts) it is MoE. Scores that are NaN or infinite are refused by
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
        if not computes(None, x=rows, gate_up=self.gate_up.weight, down=self.down.weight):
            return super().forward(x)
        best, experts = self.router(rows).sort(dim=-1, descending=True, stable=True)
        shares, chosen = best[:, :k].softmax(dim=-1), experts[:, :k].flatten()
        order = chosen.argsort(stable=True)  # the P·k choices, those of one expert together
        offsets = torch.searchsorted(chosen[order], torch.arange(self.n_experts + 1, device=x.device))
        gate, up = grouped_matmul(rows[order // k], self.gate_up.weight, offsets, check=False).chunk(2, dim=-1)
        y = grouped_matmul(F.silu(gate) * up, self.down.weight, offsets, check=False)
        y = y[order.argsort()].unflatten(0, (-1, k))  # each choice back in its place, (P, k, D)
        return (y * shares.unsqueeze(-1)).sum(dim=1).view_as(x)
