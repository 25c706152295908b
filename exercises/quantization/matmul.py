"""x · Ŵᵀ with Ŵ held as codes and scales: the plain way, and the one place that decides who computes it.

At small batch a product waits for its weights, so the codes are what should travel; kernels make floats of them on the
chip. On a CPU every way gives a row the same bits, whatever stands beside it: the tokens that a request gets from 8-bit
and 4-bit weights must not depend on who else is served.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8, UInt8
from torch import Tensor

from ..batch_invariant import tile_linear
from ..kernels.backend import Backend, chosen, uses_triton
from ..kernels.checks import require_dims, require_one_device
from ..kernels.products import product_if_compiled
from .absmax import dequantize, largest_code
from .cpu_kernels import int4_kernel_matmul, int8_kernel_matmul, int8_kernel_takes
from .packing import unpack_bits

from course import NotYetWritten

# Up to so many rows Triton's kernel is the faster on a GPU; beyond, decoding costs little beside the products.
FEW_ROWS = 32
# Weights that plain_matmul decodes at a time: 1 MB in float32, which stays in the processor's cache until it is used.
DECODED_AT_ONCE = 1 << 18
_CODES = {8: torch.int8, 4: torch.uint8}  # as the compiled product reads them


def quantized_matmul(
    x: Float[Tensor, "... D"],
    codes: Int8[Tensor, "out D"] | UInt8[Tensor, "..."],
    scales: Float[Tensor, "..."],
    bits: int,
    kernels: bool = True,
    backend: Backend | None = None,
) -> Float[Tensor, "... out"]:
    """Return x · Ŵᵀ in x's dtype, Ŵ = code · scale, computed by the first of these that can:

    | who | takes |
    |---|---|
    | torch's 4-bit kernel | 4 bits in its own layout, which nobody else reads |
    | the compiled product | 8 and 4 bits on a CPU, a scale of 16 bits for a row or for 32 · k weights, x no float64 |
    | torch's 8-bit kernel | 8 bits with a scale a row on a CPU, x in float32 or bfloat16 |
    | Triton's kernel | 8 and 4 bits on a GPU, up to FEW_ROWS rows |
    | `plain_matmul` | everything |

    The compiled product (`kernels.products`, where there is a C compiler) multiplies in float32. torch's kernels round
    x and the result to bfloat16, `plain_matmul` rounds Ŵ to x's dtype. Triton's multiplies with the codes themselves,
    which every float type holds exactly, and sums in float32.

    On a CPU the number of rows chooses nothing, or a token would get other last bits in a batch than alone: when many
    rows were decoded first, of 40 greedy texts of the shipped target 4 became others. The compiled product sums alike
    for any number of rows. At 1 row it takes a seventh of the time of float32 F.linear where that has to be read from
    memory (49,152 × 576), 0.4 to 0.8 of it where it lies in the cache; at 512 rows as much or up to 1.5 times as much
    (3,072 × 576 and 576 × 1,536; one thread).

    Args:
        codes: int8 (out, D) for 8 bits; for fewer what `packing.pack_bits` makes of them, uint8 (out, D · bits / 8);
            or the blocks of `to_int4_kernel`.
        scales: floats of any type, one a row, (out, 1), or one a group of D / G, (out, G); or the pairs of
            `to_int4_kernel`, (G, out, 2).
        kernels: False leaves it to `plain_matmul`.
        backend: Triton or not; None leaves it to `set_backend`. Triton asked for by name takes any number of rows.

    Raises:
        ValueError: shapes or dtypes that do not fit, G no divisor of D; different devices; kernels is False and the
            layout is a kernel's.
        KernelUnavailable: "triton" was chosen and cannot compute this.
    """
    if scales.ndim == 3:
        if not kernels:
            raise ValueError("scales has 3 dimensions: the layout of the 4-bit kernel, which has no plain way")
        return int4_kernel_matmul(x, codes, scales)
    if kernels and chosen(backend) != "triton":
        if codes.dtype is _CODES.get(bits) and (y := product_if_compiled(x, codes, scales)) is not None:
            return y
        if int8_kernel_takes(x, codes, scales):
            return int8_kernel_matmul(x, codes, scales)
    if not _fits(x, codes, scales, bits):
        _refuse(x, codes, scales, bits)
    if kernels and _uses_triton(x, codes, scales, bits, backend):
        from ..kernels.triton_quantized import quantized_matvec

        return quantized_matvec(x, codes, scales, bits)
    return plain_matmul(x, codes, scales, bits)


def plain_matmul(
    x: Float[Tensor, "... D"],
    codes: Int8[Tensor, "out D"] | UInt8[Tensor, "out bytes"],
    scales: Float[Tensor, "out G"],
    bits: int,
) -> Float[Tensor, "... out"]:
    """Return x · Ŵᵀ in x's dtype, the weights unpacked and dequantized first.

    Only a block of Ŵ's rows is decoded at a time, about DECODED_AT_ONCE weights: as floats the whole of a large matrix
    would have to be written to memory and read again, which takes many times longer than the product itself. On a CPU
    each block is multiplied by `tile_linear`, so that a row has the same bits in any batch, for two to three times the
    time at 1 row and 1.2 to 1.7 times at 8 to 512; elsewhere by F.linear.

    Args:
        codes: int8 codes as they are for 8 bits, what `pack_bits` makes of them for fewer.
        scales: one a row (G = 1) or one a group.
    """
    raise NotYetWritten(
        "exercise 5.11 plain_matmul is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/quantization/matmul.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/quantization/test_matmul.py --exercise plain_matmul"
    )


def _uses_triton(x: Tensor, codes: Tensor, scales: Tensor, bits: int, backend: Backend | None) -> bool:
    n = x.numel()
    for_it = bits in (8, 4) and n <= FEW_ROWS * x.shape[-1]
    if not n or not codes.numel() or not (for_it or backend == "triton"):
        return False
    beyond = None
    if bits not in (8, 4):
        beyond = f"bits is {bits}, and it takes 8 and 4"
    elif bits == 4 and codes.shape[1] % scales.shape[1]:
        beyond = f"a group of {2 * codes.shape[1] // scales.shape[1]} 4-bit codes ends inside a byte"
    return uses_triton(backend, beyond, x=x, codes=codes, scales=scales)


def _fits(x: Tensor, codes: Tensor, scales: Tensor, bits: int) -> bool:
    """Whether these can be multiplied: a kernel given wrong shapes reads somebody else's memory."""
    if not x.ndim or codes.ndim != 2 or scales.ndim != 2:
        return False
    D, (out, n_bytes), (n_scales, G) = x.shape[-1], codes.shape, scales.shape
    return (
        D * bits == 8 * n_bytes
        and n_scales == out
        and G > 0
        and D % G == 0
        and codes.dtype is (torch.int8 if bits == 8 else torch.uint8)
        and x.is_floating_point()
        and scales.is_floating_point()
        and x.get_device() == codes.get_device() == scales.get_device()
    )


def _refuse(x: Tensor, codes: Tensor, scales: Tensor, bits: int) -> None:
    """Raise the ValueError that names what does not fit."""
    largest_code(bits)
    require_dims(2, "(out, D · bits / 8)", codes=codes)
    require_dims(2, "(out, G)", scales=scales)
    kind = torch.int8 if bits == 8 else torch.uint8
    if codes.dtype is not kind:
        raise ValueError(f"codes holds {codes.dtype}; codes of {bits} bits come as {kind}")
    for name, floats in (("x", x), ("scales", scales)):
        if not floats.is_floating_point():
            raise ValueError(f"{name} holds {floats.dtype}; it must hold floats")
    D = codes.shape[1] * 8 / bits
    if not x.ndim or x.shape[-1] != D:
        raise ValueError(f"x has shape {tuple(x.shape)}; it must be (…, {D:g}), as many numbers a row as codes has")
    require_one_device(x=x, codes=codes, scales=scales)
    raise ValueError(f"scales has shape {tuple(scales.shape)}; it must be ({len(codes)}, G), G a divisor of D = {D:g}")
