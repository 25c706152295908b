"""Attention that looks back a fixed number of positions, whole: masks, a ring, layers that differ, their blocks."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "block_tables": [
        "GroupedTables",
        "HOLE",
        "WindowedBlockTable",
        "tables_of",
    ],
    "grouped_cache": [
        "grouped_paged_cache",
    ],
    "hybrid": [
        "HybridKVCache",
    ],
    "layer_groups": [
        "LayerGroup",
        "LayerGroups",
        "blocks_for_request",
        "require_windows",
    ],
    "masks": [
        "sliding_window_mask",
    ],
    "ring": [
        "WindowKVCache",
    ],
    "windowed": [
        "Cache",
        "WithoutPast",
        "in_windows",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .block_tables import GroupedTables as GroupedTables
    from .block_tables import HOLE as HOLE
    from .block_tables import WindowedBlockTable as WindowedBlockTable
    from .block_tables import tables_of as tables_of
    from .grouped_cache import grouped_paged_cache as grouped_paged_cache
    from .hybrid import HybridKVCache as HybridKVCache
    from .layer_groups import LayerGroup as LayerGroup
    from .layer_groups import LayerGroups as LayerGroups
    from .layer_groups import blocks_for_request as blocks_for_request
    from .layer_groups import require_windows as require_windows
    from .masks import sliding_window_mask as sliding_window_mask
    from .ring import WindowKVCache as WindowKVCache
    from .windowed import Cache as Cache
    from .windowed import WithoutPast as WithoutPast
    from .windowed import in_windows as in_windows
