"""Keys and values in blocks that any request may hold: the books first (`blocks`, `radix_cache`), then the tensors."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "admission": [
        "AdmissionCalls",
        "PrefixFit",
    ],
    "blocks": [
        "BlockAllocator",
        "BlockTable",
        "OutOfBlocks",
        "blocks_for",
    ],
    "compressed_tree": [
        "CompressedRadixCache",
        "Key",
        "Run",
        "n_equal",
    ],
    "counted_radix_cache": [
        "CountedRadixCache",
    ],
    "host_blocks": [
        "HostBlocks",
    ],
    "paged_cache": [
        "Float8PagedKVCache",
        "Int8PagedKVCache",
        "PagedKVCache",
        "Scratch",
    ],
    "radix_cache": [
        "RadixCache",
        "reusable_prefix_tokens",
    ],
    "radix_tree": [
        "Blocks",
        "COPY_ERRORS",
        "HostStore",
        "LeastRecent",
        "Node",
        "PrefixStats",
        "whole_blocks",
    ],
    "routing": [
        "Replica",
        "route_by_prefix",
    ],
    "table_rows": [
        "TableRows",
    ],
    "watched": [
        "Listener",
        "WatchedAllocator",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .admission import AdmissionCalls as AdmissionCalls
    from .admission import PrefixFit as PrefixFit
    from .blocks import BlockAllocator as BlockAllocator
    from .blocks import BlockTable as BlockTable
    from .blocks import OutOfBlocks as OutOfBlocks
    from .blocks import blocks_for as blocks_for
    from .compressed_tree import CompressedRadixCache as CompressedRadixCache
    from .compressed_tree import Key as Key
    from .compressed_tree import Run as Run
    from .compressed_tree import n_equal as n_equal
    from .counted_radix_cache import CountedRadixCache as CountedRadixCache
    from .host_blocks import HostBlocks as HostBlocks
    from .paged_cache import Float8PagedKVCache as Float8PagedKVCache
    from .paged_cache import Int8PagedKVCache as Int8PagedKVCache
    from .paged_cache import PagedKVCache as PagedKVCache
    from .paged_cache import Scratch as Scratch
    from .radix_cache import RadixCache as RadixCache
    from .radix_cache import reusable_prefix_tokens as reusable_prefix_tokens
    from .radix_tree import Blocks as Blocks
    from .radix_tree import COPY_ERRORS as COPY_ERRORS
    from .radix_tree import HostStore as HostStore
    from .radix_tree import LeastRecent as LeastRecent
    from .radix_tree import Node as Node
    from .radix_tree import PrefixStats as PrefixStats
    from .radix_tree import whole_blocks as whole_blocks
    from .routing import Replica as Replica
    from .routing import route_by_prefix as route_by_prefix
    from .table_rows import TableRows as TableRows
    from .watched import Listener as Listener
    from .watched import WatchedAllocator as WatchedAllocator
