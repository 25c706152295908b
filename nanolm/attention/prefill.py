"""Attention of many queries at once, causal, after any past: the kernel of prefill and of prefill in chunks."""

from jaxtyping import Float
from torch import Tensor

from ..kernels.backend import Backend, uses_triton
from ..kernels.checks import require_alike, require_dims
from . import flash

LARGEST_HEAD = 256  # numbers of a head that a tile has room for


def prefill_attention(
    q: Float[Tensor, "B N T H"],
    k: Float[Tensor, "B K S H"],
    v: Float[Tensor, "B K S H"],
    backend: Backend | None = None,
) -> Float[Tensor, "B N T H"]:
    """Return softmax(q·kᵀ / √H)·v, causal: the T queries are the last T of the S positions; in q's dtype.

    The torch path is `flash.flash_attention`. Triton's kernel sums in float32, takes heads of up to 256 numbers,
    and reads no key behind the last that a tile of queries may see. One thing it does not promise: a *value* that is
    NaN or infinite reaches every query of its tile, not only those that see it. In a prefill every position is real.

    Args:
        backend: who computes; None leaves it to `set_backend`.

    Raises:
        ValueError: shapes that do not fit, N no multiple of K, fewer keys than queries; different dtypes or
            devices.
        KernelUnavailable: "triton" was chosen and cannot compute this.

    Source: Dao 2023 ("FlashAttention-2", algorithm 1).
    """
    require_dims(4, "(B, heads, positions, H)", q=q, k=k, v=v)
    flash.require_heads(q, k, v)
    require_alike(q=q, k=k, v=v)
    H = q.shape[-1]
    too_wide = f"H is {H}, and it takes up to {LARGEST_HEAD}" if H > LARGEST_HEAD else None
    if q.numel() and uses_triton(backend, too_wide, q=q, k=k, v=v):
        from ..kernels.triton_prefill import flash_prefill

        return flash_prefill(q, k, v)
    return flash.flash_attention(q, k, v)
