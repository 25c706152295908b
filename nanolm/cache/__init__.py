"""Keys and values of every token so far, in rows. Each cache attends: it alone knows what lies where."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "attending": [
        "AttendingCache",
    ],
    "contiguous": [
        "KVCache",
    ],
    "kinds": [
        "CacheClasses",
        "CacheKind",
        "cache_classes",
    ],
    "quantized": [
        "Float8KVCache",
        "Int8KVCache",
        "RaggedFloat8KVCache",
        "RaggedInt8KVCache",
    ],
    "ragged": [
        "RaggedKVCache",
    ],
    "static": [
        "StaticKVCache",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .attending import AttendingCache as AttendingCache
    from .contiguous import KVCache as KVCache
    from .kinds import CacheClasses as CacheClasses
    from .kinds import CacheKind as CacheKind
    from .kinds import cache_classes as cache_classes
    from .quantized import Float8KVCache as Float8KVCache
    from .quantized import Int8KVCache as Int8KVCache
    from .quantized import RaggedFloat8KVCache as RaggedFloat8KVCache
    from .quantized import RaggedInt8KVCache as RaggedInt8KVCache
    from .ragged import RaggedKVCache as RaggedKVCache
    from .static import StaticKVCache as StaticKVCache
