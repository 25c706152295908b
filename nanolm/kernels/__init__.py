"""Triton's kernels for a GPU, products in C for a CPU, and the switches that say who computes.

`set_backend("torch")` or `set_backend("triton")` chooses for the whole process, the argument `backend` of a product for
one call; left alone ("auto"), a GPU gets Triton's where it can compute them, and everything else torch's. Triton is
imported when a kernel of its own first runs: without it, on macOS and Windows for example, all else works. Kernels are
for inference: they have no gradient.

On a CPU, products with packed matrices are compiled on first use, where there is a C compiler (`products`, with its own
torch twin): `set_products("torch")` or NANOLM_PRODUCTS=torch does without, `products_backend()` says who computes and,
if it is not the library, why.

Each of Triton's has a torch twin of the same signature, which also does the checks: `attention.prefill_attention`,
`attention.paged_attention`, `quantization.quantized_matmul` and `model.grouped_matmul`.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "backend": [
        "Backend",
        "KERNEL_DTYPES",
        "KernelUnavailable",
        "on_device_of",
        "set_backend",
        "uses_triton",
    ],
    "compiled": [
        "NotCompiled",
    ],
    "products": [
        "ProductsBackend",
        "products_backend",
        "set_products",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .backend import Backend as Backend
    from .backend import KERNEL_DTYPES as KERNEL_DTYPES
    from .backend import KernelUnavailable as KernelUnavailable
    from .backend import on_device_of as on_device_of
    from .backend import set_backend as set_backend
    from .backend import uses_triton as uses_triton
    from .compiled import NotCompiled as NotCompiled
    from .products import ProductsBackend as ProductsBackend
    from .products import products_backend as products_backend
    from .products import set_products as set_products
