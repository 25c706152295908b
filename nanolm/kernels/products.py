"""x · Ŵᵀ on a CPU with the matrix read as it is kept: floats of 32 or 16 bits, codes of 8 or 4.

`products.c` is the fast way, the functions named plain the same in torch. Activations are float32 in both (a product in
bfloat16 is one in float32 whose result is rounded). Every output is summed in 32 partial sums in one order, whatever
the number of rows and of threads: a row of x gets the bits that it gets alone. A processor with other registers than
AVX-512's or AVX2's may round other last bits.

Sources: blocks of 32 codes with a scale of 16 bits as in llama.cpp (ggml-common.h: Q8_0, Q4_0, Q4_1).
"""

import os
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8, UInt8
from torch import Tensor

from .compiled import Library, NotCompiled, load_library

ProductsBackend = Literal["auto", "compiled", "torch"]
NibbleOrder = Literal["pairs", "halves"]
SCALES = (torch.bfloat16, torch.float16)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_LONGEST = 1 << 16  # numbers of a row: four of them as floats lie on a thread's stack
_FEW_BYTES = 1 << 16  # of a matrix: below, a second thread is woken for longer than it works
_KINDS = {torch.float32: "product_float32", torch.bfloat16: "product_bfloat16", torch.int8: "product_int8"}
_switch: ProductsBackend | None = None


def set_products(backend: ProductsBackend) -> ProductsBackend:
    """Choose who computes products on a CPU, for the whole process; return who did before.

    Args:
        backend: "auto", the compiled library where this machine can have it; "compiled", or an error that says why it
            cannot; "torch", never the library. The variable NANOLM_PRODUCTS says it from outside.

    Raises:
        ValueError: another name.
    """
    global _switch
    previous, _switch = _chosen(), _known(backend, "backend")
    return previous


def products_backend() -> tuple[str, str]:
    """Return who computes products on a CPU, "compiled" or "torch", and the compiler and its flags, or the reason.

    Raises:
        NotCompiled: "compiled" was asked for and cannot be had.
    """
    library = products_library()
    if isinstance(library, Library):
        return "compiled", library.made_by
    return "torch", str(library)


def product_if_compiled(
    x: Tensor, matrix: Tensor, scales: Tensor | None = None, minima: Tensor | None = None, order: NibbleOrder = "pairs"
) -> Tensor | None:
    """Return `packed_product` of the same, or None where the library is not there or does not take this."""
    if _switch == "torch" or not x.is_cpu or x.dtype not in _FLOATS or _misfit(x, matrix, scales, minima):
        return None
    if torch.is_grad_enabled() and (x.requires_grad or matrix.requires_grad):
        return None
    library = products_library()
    return _multiply(library, x, matrix, scales, minima, order) if isinstance(library, Library) else None


def packed_product(
    x: Float[Tensor, "... D"],
    matrix: Float[Tensor, "out D"] | Int8[Tensor, "out D"] | UInt8[Tensor, "out half"],
    scales: Float[Tensor, "out G"] | None = None,
    minima: Float[Tensor, "out G"] | None = None,
    order: NibbleOrder = "pairs",
) -> Float[Tensor, "... out"]:
    """Return x · Ŵᵀ in x's dtype, by the compiled library.

    | matrix | Ŵ |
    |---|---|
    | float32 or bfloat16 (out, D) | itself |
    | int8 (out, D) | code · scale |
    | uint8 (out, D / 2), two codes a byte | (code - 8) · scale, or code · scale + minimum |

    Args:
        x: float32, bfloat16 or float16; D a multiple of 32, 65,536 at most.
        scales, minima: bfloat16 or float16, one a row (G = 1) or one a group of D / G, a multiple of 32.
        order: where a byte's two codes belong. "pairs": byte i of a row holds codes 2i and 2i + 1, the first in its low
            bits, as `quantization.pack_nibbles` lays them; "halves": byte j of 16 holds codes j and j + 16 of 32, as
            GGUF's blocks do.

    Raises:
        ValueError: shapes or dtypes that do not fit, before anything is read.
        NotCompiled: there is no library, or "torch" is chosen.
    """
    misfit = _misfit(x, matrix, scales, minima) or _not_here(x, order)
    if misfit:
        raise ValueError(misfit)
    library = products_library()
    if not isinstance(library, Library):
        raise library
    return _multiply(library, x, matrix, scales, minima, order)


def plain_product(
    x: Float[Tensor, "... D"],
    matrix: Float[Tensor, "out D"] | Int8[Tensor, "out D"] | UInt8[Tensor, "out half"],
    scales: Float[Tensor, "out G"] | None = None,
    minima: Float[Tensor, "out G"] | None = None,
    order: NibbleOrder = "pairs",
) -> Float[Tensor, "... out"]:
    """Return what `packed_product` does, by torch: Ŵ as floats first, then F.linear in float32.

    Raises:
        ValueError: as `packed_product`.
    """
    misfit = _misfit(x, matrix, scales, minima) or _not_here(x, order)
    if misfit:
        raise ValueError(misfit)
    return F.linear(x.float(), decoded(matrix, scales, minima, order)).to(x.dtype)


def decoded(
    matrix: Tensor, scales: Tensor | None = None, minima: Tensor | None = None, order: NibbleOrder = "pairs"
) -> Float[Tensor, "... D"]:
    """Return Ŵ in float32, for a matrix, scales and minima as `packed_product` takes them, or some of their rows."""
    if matrix.dtype is torch.uint8:
        low, high = matrix & 15, matrix >> 4
        if order == "pairs":
            matrix = torch.stack([low, high], -1).flatten(-2)
        else:
            matrix = torch.cat([low.unflatten(-1, (-1, 16)), high.unflatten(-1, (-1, 16))], -1).flatten(-2)
        matrix = matrix.float() - (8 if minima is None else 0)
    if scales is None:
        return matrix.float()
    groups = matrix.float().unflatten(-1, (scales.shape[-1], -1)) * scales.float()[..., None]
    return (groups if minima is None else groups + minima.float()[..., None]).flatten(-2)


def _multiply(
    library: Library, x: Tensor, matrix: Tensor, scales: Tensor | None, minima: Tensor | None, order: NibbleOrder
) -> Tensor:
    *leading, D = x.shape
    out, y = matrix.shape[0], torch.empty(*leading, matrix.shape[0])
    rows, matrix, dtype = x.float().contiguous(), matrix.contiguous(), matrix.dtype
    if dtype is torch.uint8 and order == "pairs":
        apart = torch.empty_like(rows)
        library.functions["even_then_odd"](rows.data_ptr(), rows.numel(), apart.data_ptr())
        rows = apart
    name, group, is_half, scales_at, minima_at = _KINDS.get(dtype, "product_int4"), D, False, None, None
    if scales is not None:
        scales = scales.contiguous()
        group, is_half, scales_at = D // scales.shape[1], scales.dtype is torch.float16, scales.data_ptr()
    if minima is not None:
        minima = minima.contiguous()
        name, minima_at = "product_uint4", minima.data_ptr()
    threads = torch.get_num_threads() if matrix.nbytes > _FEW_BYTES else 1
    n, at = rows.numel() // D, matrix.data_ptr()
    library.functions[name](rows.data_ptr(), n, D, at, scales_at, minima_at, group, is_half, out, y.data_ptr(), threads)
    return y if x.dtype is torch.float32 else y.to(x.dtype)


def _misfit(x: Tensor, matrix: Tensor, scales: Tensor | None, minima: Tensor | None) -> str | None:
    """What is wrong with the arguments, if anything is: the library would read somebody else's memory."""
    dtype, shape = matrix.dtype, matrix.shape
    if not matrix.is_cpu or (scales is not None and not scales.is_cpu) or (minima is not None and not minima.is_cpu):
        return "matrix, scales or minima is on another device; these products are a CPU's"
    if len(shape) != 2 or not x.ndim:
        return f"x has shape {tuple(x.shape)} and matrix {tuple(shape)}; they must be (…, D) and (out, D)"
    packed = dtype is torch.uint8
    D = shape[1] * 2 if packed else shape[1]
    if not packed and dtype not in _KINDS:
        return f"matrix holds {dtype}; it must hold float32, bfloat16, int8 or, two codes a byte, uint8"
    if x.shape[-1] != D:
        return f"x has shape {tuple(x.shape)}; it must be (…, {D}), as many numbers a row as matrix has"
    if not D or D % 32 or D > _LONGEST:
        return f"matrix has rows of {D} numbers; D must be a multiple of 32, {_LONGEST:,} at most"
    if dtype.is_floating_point != (scales is None):
        return f"scales is {'missing' if scales is None else 'given'} and matrix holds {dtype}; codes have scales"
    if minima is not None and (not packed or scales is None):
        return f"minima is given and matrix holds {dtype}; only 4-bit codes, uint8, have minima"
    if scales is None:
        return None
    if scales.dtype not in SCALES or (minima is not None and minima.dtype is not scales.dtype):
        held = f"{scales.dtype}" if minima is None else f"{scales.dtype} and minima {minima.dtype}"
        return f"scales holds {held}; scales and minima must hold bfloat16 or float16, both the same"
    for name, s in (("scales", scales), ("minima", scales if minima is None else minima)):
        if s.ndim != 2 or s.shape[0] != shape[0] or not s.shape[1] or D % (32 * s.shape[1]) or s.shape != scales.shape:
            return f"{name} has shape {tuple(s.shape)}; it must be ({len(matrix)}, G), groups of D / G a multiple of 32"
    return None


def _not_here(x: Tensor, order: str) -> str | None:
    if x.dtype not in _FLOATS:
        return f"x holds {x.dtype}; it must hold float32, bfloat16 or float16"
    if order not in get_args(NibbleOrder):
        return f"order is {order!r}; it must be one of {', '.join(get_args(NibbleOrder))}"
    return None if x.is_cpu else f"x is on {x.device}; these products are a CPU's"


def products_library() -> Library | NotCompiled:
    """Return the library where it is chosen and can be had, else the reason.

    Raises:
        NotCompiled: "compiled" was asked for and cannot be had.
    """
    backend = _chosen()
    if backend == "torch":
        return NotCompiled("'torch' is chosen (NANOLM_PRODUCTS or set_products)")
    library = load_library()
    if backend == "compiled" and isinstance(library, NotCompiled):
        raise library
    return library


def _chosen() -> ProductsBackend:
    global _switch
    if _switch is None:
        _switch = _known(os.environ.get("NANOLM_PRODUCTS") or "auto", "NANOLM_PRODUCTS")
    return _switch


def _known(backend: str, name: str) -> ProductsBackend:
    if backend not in get_args(ProductsBackend):
        raise ValueError(f"{name} is {backend!r}; it must be one of {', '.join(get_args(ProductsBackend))}")
    return backend  # pyright: ignore[reportReturnType]
