"""Four products written twice, with one signature: in Triton for a GPU, and in torch for every machine.

`use("torch")` or `use("triton")` chooses for the whole process, the argument `backend` for one call; left alone
("auto"), a GPU gets Triton's where it can compute them, and everything else torch's. Triton is imported when a kernel
of its own first runs: without it, on macOS and Windows for example, all else works.

Each product has a file with what it means, its checks and its torch path, and one named `triton_…` with the kernel.
Kernels are for inference: they have no gradient.
"""

from .choice import Backend, KernelUnavailable, use
from .grouped import check_offsets, grouped_matmul
from .paged import check_tables, paged_attention
from .prefill import flash_attention
from .quantized import quantized_matmul

__all__ = [
    "Backend",
    "KernelUnavailable",
    "check_offsets",
    "check_tables",
    "flash_attention",
    "grouped_matmul",
    "paged_attention",
    "quantized_matmul",
    "use",
]
