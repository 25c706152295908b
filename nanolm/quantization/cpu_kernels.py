"""torch's two products on a CPU that read codes directly: 8 bits with a scale a row, and 4 bits in groups.

The kernels are private to PyTorch (a type checker has to be told) and may change, so nothing outside this file calls
them, and `plain_matmul` can stand in wherever codes are kept as they are. They read a quarter or an eighth of the bytes
of float32, which is what decoding waits for.

Both make every output by itself, in an order that neither the number of rows nor a row's place changes, so a row has
the bits that it has alone. Compared bit for bit at 1 to 512 rows: 20 shapes, one thread and two, with AVX-512 and with
AVX2.

Chosen by measurement (benchmarks/quantized_linear.py, one core with AVX-512, batch 1, a matrix larger than the cache;
times as fast as float32 F.linear): 8-bit kernel with bfloat16 activations 2.8, with float32 activations 0.2; 4-bit
kernel 3.8; torch's dynamic layers by onednn 2.4, by fbgemm 4.3. Those round the activations to 8 bits as well (outputs
off by 1.3 % in place of 0.9 %) and keep a form of the weights that can be neither read nor saved as codes.
"""

import torch
from jaxtyping import Float, Int8, UInt8
from torch import Tensor

# The 8-bit kernel reads past the end of shorter rows: NaN or a crash, no error.
_WHOLE_ROW = 32
_FLOATS = (torch.float32, torch.bfloat16)
_KERNEL_GROUPS = (32, 64, 128, 256)


def int8_kernel_takes(x: Tensor, codes: Tensor, scales: Tensor) -> bool:
    """Return whether `int8_kernel_matmul` can compute this: on a CPU, codes of 8 bits and a scale a row."""
    if not x.is_cpu or codes.dtype is not torch.int8 or x.dtype not in _FLOATS:
        return False
    D = codes.shape[-1]
    return (
        D % _WHOLE_ROW == 0
        and x.ndim > 0
        and x.shape[-1] == D
        and scales.shape[-1] == 1
        and scales.numel() * D == codes.numel()
        and x.numel() > 0
        and not (x.requires_grad and torch.is_grad_enabled())
    )


def int8_kernel_matmul(
    x: Float[Tensor, "... D"], codes: Int8[Tensor, "out D"], scales: Float[Tensor, "out 1"]
) -> Float[Tensor, "... out"]:
    """Return x · Ŵᵀ in x's dtype, where `int8_kernel_takes` says so, without ever writing Ŵ down as floats.

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
    """Return x · Ŵᵀ for what `to_int4_kernel` has made; rounded as in `int8_kernel_matmul`."""
    rows = x.reshape(-1, x.shape[-1]).bfloat16()
    multiply = torch._weight_int4pack_mm_for_cpu  # pyright: ignore[reportPrivateImportUsage]
    y = multiply(rows, blocks, x.shape[-1] // len(pairs), pairs.bfloat16())
    return y.to(x.dtype).view(*x.shape[:-1], -1)
