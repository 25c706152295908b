"""Linear layers in floats whose products with few rows read the matrix once, on all of a CPU's threads.

torch's product of one row with a large matrix reads it at half of what memory gives, one with a bfloat16 matrix takes
longer than one in float32 on many processors, and a second thread helps little. For many rows, a prompt's, and for
matrices that lie in the processor's cache, torch's products are the faster. Measured with AVX-512, one thread, times as
fast as F.linear from memory: 1,536 × 576 in float32 1.6 at one row, about 1 at eight; in bfloat16 1.2 to 2 at one row,
below 1 from four on; 384 × 128 from the cache 0.8.
"""

from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..kernels.products import product_if_compiled

MOST_ROWS = {torch.float32: 4, torch.bfloat16: 2}
LEAST_BYTES = 1 << 18  # of a matrix; a smaller one is multiplied before the call of the library has returned
_Model = TypeVar("_Model", bound=nn.Module)


class CompiledLinear(nn.Linear):
    """An nn.Linear of LEAST_BYTES that multiplies up to MOST_ROWS rows by the compiled product, where there is one.

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
        if self.fast and self._is_for_library(input):
            y = product_if_compiled(input, self.weight)
            if y is not None:
                return y if self.bias is None else y + self.bias
        return F.linear(input, self.weight, self.bias)

    def _is_for_library(self, x: Tensor) -> bool:
        most = MOST_ROWS.get(x.dtype, 0)
        return (
            x.numel() <= most * self.in_features and x.dtype is self.weight.dtype and self.weight.nbytes >= LEAST_BYTES
        )


def with_compiled_linear(model: _Model) -> _Model:
    """Exchange the model's linear layers, the head too, for `CompiledLinear` in place, and return the model.

    Weights stay the same tensors; layers of another class than nn.Linear are left alone, quantized ones for example.
    """
    layers = [(name, layer) for name, layer in model.named_modules() if type(layer) is nn.Linear]
    for name, layer in layers:
        model.set_submodule(name, CompiledLinear.over(layer))
    return model
