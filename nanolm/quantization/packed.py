"""Layers over matrices as a file has them, in blocks of 32 codes with scales and minima, and an embedding over such."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int8, UInt8
from torch import Tensor, nn

from ..batch_invariant import tile_linear
from ..kernels.products import decoded, product_if_compiled
from .linear import QuantizedLinear

_DECODED_AT_ONCE = 1 << 18  # weights; as floats 1 MB, which stays in the processor's cache until it is used


class PackedLinear(nn.Module):
    """y = x · Ŵᵀ with Ŵ as `kernels.packed_product` reads it, 4-bit codes in halves, and never kept as floats.

    Attributes:
        codes: int8 (out, D), or uint8 (out, D / 2), byte j of 16 codes j and j + 16 of 32.
        scales: bfloat16 or float16 (out, G).
        minima: the same or None.
        fast: whether the compiled product may compute; False decodes always.
    """

    codes: Tensor
    scales: Tensor
    minima: Tensor | None
    fast = True

    def __init__(
        self,
        codes: Int8[Tensor, "out D"] | UInt8[Tensor, "out half"],
        scales: Float[Tensor, "out G"],
        minima: Float[Tensor, "out G"] | None = None,
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = len(codes), codes.shape[1] * (2 if codes.dtype is torch.uint8 else 1)
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)
        self.register_buffer("minima", minima)

    @property
    def weight(self) -> Float[Tensor, "out D"]:
        """The weights as the layer uses them, decoded: for looking at."""
        return decoded(self.codes, self.scales, self.minima, "halves")

    def rows(self, places: Int[Tensor, "..."]) -> Float[Tensor, "... D"]:
        """Return rows of the weights, decoded: as many as there are places, the others are not read."""
        minima = None if self.minima is None else F.embedding(places, self.minima)
        codes, scales = F.embedding(places, self.codes), F.embedding(places, self.scales)
        return decoded(codes, scales, minima, "halves")

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... out"]:
        """Return x · Ŵᵀ in x's dtype: by the compiled product, or in blocks of rows that are decoded one by one.

        On a CPU a row gets the bits that it gets alone, in either way.
        """
        if self.fast and (y := product_if_compiled(x, self.codes, self.scales, self.minima, "halves")) is not None:
            return y
        multiply, n = tile_linear if x.is_cpu else F.linear, max(1, _DECODED_AT_ONCE // self.in_features)
        parts = [(self.codes[i : i + n], self.scales[i : i + n], i) for i in range(0, self.out_features, n)]
        minima = [None if self.minima is None else self.minima[i : i + n] for *_, i in parts]
        blocks = (decoded(c, s, m, "halves").to(x.dtype) for (c, s, _), m in zip(parts, minima, strict=True))
        return torch.cat([multiply(x, block) for block in blocks], dim=-1)

    def _apply(self, fn, recurse: bool = True) -> "PackedLinear":
        """Move as any module, but keep the dtype of scales, which is the format's: a model's dtype is not theirs."""
        kinds = {name: t.dtype for name, t in (("scales", self.scales), ("minima", self.minima)) if t is not None}
        super()._apply(fn, recurse)
        for name, dtype in kinds.items():
            setattr(self, name, getattr(self, name).to(dtype))
        return self

    def extra_repr(self) -> str:
        """What `print(model)` shows of the layer."""
        bits = 4 if self.codes.dtype is torch.uint8 else 8
        return f"in_features={self.in_features}, out_features={self.out_features}, bits={bits}"


class PackedEmbedding(nn.Module):
    """An embedding whose rows are decoded where they are looked up, over the matrix of a layer that may be the head.

    Attributes:
        table: the layer with the matrix; shared, not copied.
    """

    _like: Tensor

    def __init__(self, table: QuantizedLinear | PackedLinear, dtype: torch.dtype) -> None:
        super().__init__()
        self.table = table
        self.register_buffer("_like", torch.empty(0, dtype=dtype), persistent=False)  # follows the model's dtype

    def forward(self, tokens: Int[Tensor, "..."]) -> Float[Tensor, "... D"]:
        """Return the tokens' rows in the model's dtype.

        Raises:
            IndexError: a token outside the matrix.
        """
        return self.table.rows(tokens).to(self._like.dtype)
