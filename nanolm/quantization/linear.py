"""Linear layers that hold codes and scales in place of weights, and a model whose layers are exchanged for such.

What a decode step has to read shrinks with the codes; activations stay in floats ("weight-only" quantization).
"""

from typing import TypeGuard

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int8
from torch import Tensor, nn

from ..kernels.products import product_if_compiled
from .absmax import dequantize, quantization_error, quantize, quantize_tensor
from .cpu_kernels import int4_kernel_takes, to_int4_kernel
from .matmul import quantized_matmul
from .packing import pack_bits, unpack_bits

# Two bytes a scale, with float32's range: no row is too small for it.
SCALE_DTYPE = torch.bfloat16


class QuantizedLinear(nn.Module):
    """A drop-in for nn.Linear: y = x · Ŵᵀ + bias, Ŵ decoded from codes at every call and never kept.

    Attributes:
        codes: int8 (out, D) for 8 bits; for fewer packed by `pack_bits`, uint8 (out, D · bits / 8).
        scales: bfloat16 (out, G), G = 1 for one a row.
        channel_scales: (D,) or None. Inputs are divided by them; the weights were multiplied before they were rounded.
        bias: (out,) or None, in floats.
        fast: whether a kernel that reads the codes may compute the product; False is `plain_matmul` always.
        error: what rounding has cost, relative to the weights (`quantization_error`); NaN where nobody knows.
    """

    codes: Tensor
    scales: Tensor
    bias: Tensor | None
    channel_scales: Tensor | None
    fast = True
    error = float("nan")

    def __init__(
        self,
        codes: Int8[Tensor, "out D"],
        scales: Float[Tensor, "out G"],
        bits: int,
        bias: Float[Tensor, "out"] | None = None,
        channel_scales: Float[Tensor, "D"] | None = None,
    ) -> None:
        super().__init__()
        self.bits, self.out_features, self.in_features = bits, *codes.shape
        self.register_buffer("codes", codes if bits == 8 else pack_bits(codes, bits))
        self.register_buffer("scales", scales.to(SCALE_DTYPE))
        self.register_buffer("bias", bias)
        self.register_buffer("channel_scales", channel_scales)

    @classmethod
    def from_linear(
        cls, linear: nn.Linear, bits: int, group_size: int | None = None, per_tensor: bool = False
    ) -> "QuantizedLinear":
        """Return the layer with its weights rounded to `bits` bits, one scale a row or one a group; the bias stays.

        Args:
            per_tensor: one scale for the whole matrix (`quantize_tensor`), which the layer keeps for each row.

        Raises:
            ValueError: what `quantize` refuses, rows that do not fill whole bytes, or per_tensor with a group_size.
        """
        weight, bias = linear.weight.detach(), linear.bias
        if per_tensor and group_size is not None:
            raise ValueError(f"per_tensor is True and group_size {group_size}; one scale leaves no groups: None")
        if per_tensor:
            codes, scale = quantize_tensor(weight, bits)
            scales = scale.expand(len(weight), 1).contiguous()
        else:
            codes, scales = quantize(weight, bits, group_size, SCALE_DTYPE)
        layer = cls(codes, scales, bits, None if bias is None else bias.detach())
        layer.error = quantization_error(weight, dequantize(codes, layer.scales))
        return layer

    @property
    def group_size(self) -> int:
        """Weights that share a scale; the whole row if there is one a row."""
        return self.in_features // self.scales.shape[1]

    @property
    def read_as_it_is(self) -> bool:
        """Whether the compiled product reads these codes, here and now."""
        nothing = torch.empty(0, self.in_features, device=self.codes.device)
        return self.bits in (8, 4) and product_if_compiled(nothing, self.codes, self.scales) is not None

    @property
    def weight(self) -> Float[Tensor, "out D"]:
        """The weights as the layer uses them, decoded: for looking at. Channel scales are taken out again."""
        weight = dequantize(self.integers(), self.scales)
        return weight if self.channel_scales is None else weight / self.channel_scales

    def integers(self) -> Int8[Tensor, "out D"]:
        """Return the codes, unpacked."""
        return self.codes if self.bits == 8 else unpack_bits(self.codes, self.bits)

    def rows(self, places: Int[Tensor, "..."]) -> Float[Tensor, "... D"]:
        """Return rows of the weights, decoded: as many as there are places, the others are not read."""
        codes, scales = F.embedding(places, self.codes), F.embedding(places, self.scales)
        rows = dequantize(codes if self.bits == 8 else unpack_bits(codes, self.bits), scales)
        return rows if self.channel_scales is None else rows / self.channel_scales

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... out"]:
        """Return x · Ŵᵀ + bias in x's dtype."""
        if self.channel_scales is not None:
            x = x / self.channel_scales.to(x.dtype)
        y = quantized_matmul(x, self.codes, self.scales, self.bits, self.fast)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        """What `print(model)` shows of the layer."""
        shape = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{shape}, bits={self.bits}, group_size={self.group_size}, error={self.error:.4f}"


class Int4Linear(nn.Module):
    """A QuantizedLinear of 4 bits in the layout of torch's kernel here: for running, not for saving or moving."""

    blocks: Tensor
    pairs: Tensor
    bias: Tensor | None
    channel_scales: Tensor | None

    def __init__(self, layer: QuantizedLinear) -> None:
        super().__init__()
        self.in_features, self.out_features, self.group_size = layer.in_features, layer.out_features, layer.group_size
        blocks, pairs = to_int4_kernel(layer.integers(), layer.scales)
        self.register_buffer("blocks", blocks)
        self.register_buffer("pairs", pairs)
        self.register_buffer("bias", layer.bias)
        self.register_buffer("channel_scales", layer.channel_scales)

    @staticmethod
    def takes(layer: nn.Module) -> TypeGuard[QuantizedLinear]:
        """Return whether the layer is a QuantizedLinear that the kernel can read."""
        if not isinstance(layer, QuantizedLinear) or layer.bits != 4 or layer.codes.device.type != "cpu":
            return False
        return int4_kernel_takes(layer.out_features, layer.in_features, layer.group_size)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... out"]:
        """Return x · Ŵᵀ + bias in x's dtype, rounded to bfloat16 on the way."""
        if self.channel_scales is not None:
            x = x / self.channel_scales.to(x.dtype)
        y = quantized_matmul(x, self.blocks, self.pairs, 4)
        return y if self.bias is None else y + self.bias
