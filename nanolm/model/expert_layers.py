"""The linear layers of E experts: in one tensor, or one module an expert."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class StackedLinear(nn.Module):
    """The linear layers of E experts, without bias, in one tensor: (E, out, in)."""

    def __init__(self, n_experts: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_experts, out_features, in_features) / in_features**0.5)

    def forward(self, x: Float[Tensor, "n in"], expert: int) -> Float[Tensor, "n out"]:
        """Return x · Wᵀ with the expert's weights, which are looked at and not copied."""
        return F.linear(x, self.weight[expert])

    def of_first(self, n_experts: int) -> list[Tensor]:
        """Return what a pass reads that runs so many experts: their weights, all in one view."""
        return [self.weight[:n_experts]]


class SeparateLinear(nn.ModuleList):
    """The same as one module an expert, so that each can be exchanged: for a quantized one, say."""

    def forward(self, x: Float[Tensor, "n in"], expert: int) -> Float[Tensor, "n out"]:
        """Return the expert's product with x."""
        return self[expert](x)

    def of_first(self, n_experts: int) -> list[Tensor]:
        """Return what a pass reads that runs so many experts."""
        return [tensor for module in self[:n_experts] for tensor in (*module.parameters(), *module.buffers())]


def separate_experts(model: nn.Module) -> None:
    """Exchange a model's StackedLinear modules for SeparateLinear ones, in place.

    The weights of their nn.Linear modules are views of the stacked ones, without gradient: for inference.
    """
    for name, stacked in list(model.named_modules()):
        if isinstance(stacked, StackedLinear):
            model.set_submodule(name, SeparateLinear(_linear_of(weight) for weight in stacked.weight.detach()))


def _linear_of(weight: Float[Tensor, "out in"]) -> nn.Linear:
    linear = nn.Linear(*weight.T.shape, bias=False, device="meta")  # no numbers drawn: the weight is there already
    linear.weight = nn.Parameter(weight, requires_grad=False)
    return linear
