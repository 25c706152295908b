"""x · Ŵᵀ for a few rows of x, with Ŵ held as 8-bit or 4-bit codes and scales: the kernel of weight-only quantization.

At small batch a product waits for its weights, so the codes are what should travel; they become floats on the chip.
"""

import torch
from jaxtyping import Float, Int8, UInt8
from torch import Tensor

from ..kernels.backend import Backend, uses_triton
from ..kernels.checks import require_dims, require_one_device
from .matmul import plain_matmul

_CODES = {8: torch.int8, 4: torch.uint8}


def quantized_matmul(
    x: Float[Tensor, "... D"],
    codes: Int8[Tensor, "out D"] | UInt8[Tensor, "out bytes"],
    scales: Float[Tensor, "out G"],
    bits: int,
    backend: Backend | None = None,
) -> Float[Tensor, "... out"]:
    """Return x · Ŵᵀ in x's dtype, Ŵ = code · scale with one scale a row (G = 1) or one a group of D / G.

    The torch path is `matmul.plain_matmul`, which rounds Ŵ to x's dtype first. Triton's kernel
    multiplies with the codes themselves, which every float type holds exactly, and sums in float32. It takes 8 bits,
    and 4 bits whose groups fill whole bytes. Made for up to about 16 rows of x; beyond, each 16 rows read Ŵ again.

    Args:
        codes: int8 (out, D) for 8 bits; for 4 what `packing.pack_bits` makes of them, uint8 (out, D / 2).
        scales: floats of any type.
        backend: who computes; None leaves it to `set_backend`.

    Raises:
        ValueError: bits not 8 or 4; shapes or dtypes that do not fit, G no divisor of D; different devices.
        KernelUnavailable: "triton" was chosen and cannot compute this.
    """
    if bits not in _CODES:
        raise ValueError(f"bits is {bits}; there are kernels for 8 and for 4")
    _require_shapes(x, codes, scales, bits)
    odd = bits == 4 and codes.shape[1] % scales.shape[1]
    beyond = f"a group of {2 * codes.shape[1] // scales.shape[1]} 4-bit codes ends inside a byte" if odd else None
    if x.numel() and len(codes) and uses_triton(backend, beyond, x=x, codes=codes, scales=scales):
        from ..kernels.triton_quantized import quantized_matvec

        return quantized_matvec(x, codes, scales, bits)
    return plain_matmul(x, codes, scales, bits)


def _require_shapes(x: Tensor, codes: Tensor, scales: Tensor, bits: int) -> None:
    require_dims(2, "(out, D) for 8 bits, (out, D / 2) for 4", codes=codes)
    require_dims(2, "(out, G)", scales=scales)
    if codes.dtype != _CODES[bits]:
        raise ValueError(f"codes holds {codes.dtype}; codes of {bits} bits come as {_CODES[bits]}")
    for name, floats in (("x", x), ("scales", scales)):
        if not floats.is_floating_point():
            raise ValueError(f"{name} holds {floats.dtype}; it must hold floats")
    D, G = codes.shape[1] * 8 // bits, scales.shape[1]
    if not x.ndim or x.shape[-1] != D:
        raise ValueError(f"x has shape {tuple(x.shape)}; it must be (…, {D}), as many numbers a row as codes has")
    if len(scales) != len(codes) or not G or D % G:
        raise ValueError(
            f"scales has shape {tuple(scales.shape)}; it must be ({len(codes)}, G), and G must divide D = {D}"
        )
    require_one_device(x=x, codes=codes, scales=scales)
