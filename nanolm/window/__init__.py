"""Attention that looks back a fixed number of positions, whole: its masks, its ring of a cache, layers that differ."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "hybrid": [
        "HybridKVCache",
    ],
    "masks": [
        "sliding_window_mask",
    ],
    "ring": [
        "WindowKVCache",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .hybrid import HybridKVCache as HybridKVCache
    from .masks import sliding_window_mask as sliding_window_mask
    from .ring import WindowKVCache as WindowKVCache
