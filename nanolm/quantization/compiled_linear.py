"""Linear layers in floats whose products with few rows read the matrix once, on all of a CPU's threads.

torch's product of one row with a bfloat16 matrix takes longer than one in float32 on many processors, and one in
float32 gains little by a second thread. For many rows, a prompt's, torch's products are the faster.
"""

from typing import TypeVar

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..kernels.products import product_if_compiled

MOST_ROWS = 16
_Model = TypeVar("_Model", bound=nn.Module)


class CompiledLinear(nn.Linear):
    """An nn.Linear that multiplies up to MOST_ROWS rows by the compiled product, where there is one.

    The sums are in float32 and the result is rounded once. Within MOST_ROWS a row gets the bits that it gets alone; a
    prompt of more rows may get other last bits, as in any nn.Linear.
    """

    fast = True

    @classmethod
    def over(cls, linear: nn.Linear) -> "CompiledLinear":
        """Return such a layer over the same weight and bias, which are shared, not copied."""
        layer = cls(linear.in_features, linear.out_features, bias=False, device="meta")
        layer.weight, layer.bias = linear.weight, linear.bias
        return layer

    def forward(self, input: Float[Tensor, "... D"]) -> Float[Tensor, "... out"]:
        """Return input · weightᵀ + bias."""
        if self.fast and input.numel() <= MOST_ROWS * self.in_features and input.dtype is self.weight.dtype:
            y = product_if_compiled(input, self.weight)
            if y is not None:
                return y if self.bias is None else y + self.bias
        return F.linear(input, self.weight, self.bias)


def with_compiled_linear(model: _Model) -> _Model:
    """Exchange the model's linear layers, the head too, for `CompiledLinear` in place, and return the model.

    Weights stay the same tensors; layers of another class than nn.Linear are left alone, quantized ones for example.
    """
    layers = [(name, layer) for name, layer in model.named_modules() if type(layer) is nn.Linear]
    for name, layer in layers:
        model.set_submodule(name, CompiledLinear.over(layer))
    return model
