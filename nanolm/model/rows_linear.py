"""A model whose linear layers multiply by a function of one's own, such as those of `batch_invariant`."""

import copy
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from .decoder import NanoLM
from .expert_layers import separate_experts

MultiplyRows = Callable[[Tensor, Tensor], Tensor]


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
