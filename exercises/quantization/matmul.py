"""x · Ŵᵀ with Ŵ held as codes and scales: the plain way, and the two kernels of PyTorch's that read the codes directly.

The kernels are private to PyTorch (a type checker has to be told) and may change, so nothing outside this file calls
them, and `plain_matmul` can always stand in. They read a quarter or an eighth of the bytes of float32, which is what
decoding waits for.

Chosen by measurement (benchmarks/quantized_linear.py, one core with AVX-512, batch 1, a matrix larger than the cache;
times as fast as float32 F.linear): 8-bit kernel with bfloat16 activations 2.8, with float32 activations 0.2; 4-bit
kernel 3.8; torch's dynamic layers by onednn 2.4, by fbgemm 4.3. Those round the activations to 8 bits as well (outputs
off by 1.3 % in place of 0.9 %) and keep a form of the weights that can be neither read nor saved as codes.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8, UInt8
from torch import Tensor

from .absmax import dequantize
from .packing import unpack_bits

from course import NotYetWritten

# Up to so many rows the kernels of codes are the faster; beyond, decoding costs little beside the products.
FEW_ROWS = 32
# Weights that plain_matmul decodes at a time: 1 MB in float32, which stays in the processor's cache until it is used.
DECODED_AT_ONCE = 1 << 18
# The 8-bit kernel reads past the end of shorter rows: NaN or a crash, no error.
_WHOLE_ROW = 32
_KERNEL_GROUPS = (32, 64, 128, 256)


def plain_matmul(
    x: Float[Tensor, "... D"],
    codes: Int8[Tensor, "out D"] | UInt8[Tensor, "out bytes"],
    scales: Float[Tensor, "out G"],
    bits: int,
) -> Float[Tensor, "... out"]:
    """Return x · Ŵᵀ in x's dtype, the weights unpacked and dequantized first.

    Only a block of Ŵ's rows is decoded at a time, about DECODED_AT_ONCE weights: as floats the whole of a large matrix
    would have to be written to memory and read again, which takes many times longer than the product itself.

    Args:
        codes: int8 codes as they are for 8 bits, what `pack_bits` makes of them for fewer.
        scales: one a row (G = 1) or one a group.
    """
    raise NotYetWritten(
        "exercise 5.11 plain_matmul is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/quantization/matmul.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/quantization/test_matmul.py -k plain_matmul"
    )


def kernel_takes(x: Tensor, codes: Tensor, scales: Tensor, bits: int) -> bool:
    """Return whether `kernel_matmul` can compute this: 8 bits, a scale a row, few rows of x, on a CPU."""
    return (
        bits == 8
        and scales.shape[-1] == 1
        and x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.bfloat16)
        and codes.shape[-1] % _WHOLE_ROW == 0
        and 0 < x.numel() <= FEW_ROWS * x.shape[-1]
        and not (x.requires_grad and torch.is_grad_enabled())
    )


def kernel_matmul(
    x: Float[Tensor, "... D"], codes: Int8[Tensor, "out D"], scales: Float[Tensor, "out 1"], bits: int = 8
) -> Float[Tensor, "... out"]:
    """As plain_matmul, where `kernel_takes` says so, without ever writing the weights down as floats.

    Activations and results are rounded to bfloat16 (8 binary digits), sums are kept in float32.
    """
    rows = x.reshape(-1, x.shape[-1]).bfloat16()
    y = torch._weight_int8pack_mm(rows, codes, scales.flatten().bfloat16())  # pyright: ignore[reportPrivateImportUsage]
    return y.to(x.dtype).view(*x.shape[:-1], -1)


def int4_kernel_takes(n_rows: int, row_length: int, group_size: int) -> bool:
    """Return whether the 4-bit kernel can read such a matrix on this processor."""
    x86 = torch.backends.cpu.get_cpu_capability().startswith("AVX")
    return x86 and n_rows % 16 == 0 and row_length % group_size == 0 and group_size in _KERNEL_GROUPS


def to_int4_kernel(
    codes: Int8[Tensor, "out D"], scales: Float[Tensor, "out G"]
) -> tuple[UInt8[Tensor, "..."], Float[Tensor, "G out 2"]]:
    """Return 4-bit codes and scales in the kernel's layout, which differs from processor to processor: keep no file."""
    blocks = torch._convert_weight_to_int4pack_for_cpu(codes.int() + 8, 1)  # pyright: ignore[reportPrivateImportUsage]
    scales = scales.T.bfloat16()
    return blocks, torch.stack([scales, torch.zeros_like(scales)], dim=-1)  # the kernel's (scale, zero point)


def int4_kernel_matmul(
    x: Float[Tensor, "... D"], blocks: UInt8[Tensor, "..."], pairs: Float[Tensor, "G out 2"]
) -> Float[Tensor, "... out"]:
    """Return x · Ŵᵀ for what `to_int4_kernel` has made; rounded as in `kernel_matmul`."""
    rows = x.reshape(-1, x.shape[-1]).bfloat16()
    multiply = torch._weight_int4pack_mm_for_cpu  # pyright: ignore[reportPrivateImportUsage]
    y = multiply(rows, blocks, x.shape[-1] // len(pairs), pairs.bfloat16())
    return y.to(x.dtype).view(*x.shape[:-1], -1)
