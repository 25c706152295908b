"""Which cache a model is given: floats of its own dtype, or one byte a number; rows alike, ragged ones, or blocks."""

from typing import Literal, NamedTuple

from ..paging.paged_cache import Float8PagedKVCache, Int8PagedKVCache, PagedKVCache
from .contiguous import KVCache
from .quantized import Float8KVCache, Int8KVCache, RaggedFloat8KVCache, RaggedInt8KVCache
from .ragged import RaggedKVCache

CacheKind = Literal["float", "int8", "float8"]


class CacheClasses(NamedTuple):
    """The three layouts of a kind: rows of one length, rows of their own lengths, blocks of a pool."""

    equal: type[KVCache]
    ragged: type[RaggedKVCache]
    paged: type[PagedKVCache]


_CLASSES: dict[str, CacheClasses] = {
    "float": CacheClasses(KVCache, RaggedKVCache, PagedKVCache),
    "int8": CacheClasses(Int8KVCache, RaggedInt8KVCache, Int8PagedKVCache),
    "float8": CacheClasses(Float8KVCache, RaggedFloat8KVCache, Float8PagedKVCache),
}


def cache_classes(kind: CacheKind) -> CacheClasses:
    """Return the classes of cache that keep keys and values as this kind of number.

    Args:
        kind: "float", the model's dtype; "int8", codes with a scale a head; "float8", 8-bit floats.

    Raises:
        ValueError: another kind.
    """
    name = kind if isinstance(kind, str) else ""  # a list has no hash, and an array no one truth
    if name not in _CLASSES:
        # How far a layer sees is another question than how its numbers are kept.
        is_window = name in ("window", "hybrid")
        windows = "; windows are HybridKVCache's, and of an engine the option `windows`" if is_window else ""
        raise ValueError(f"cache_kind is {kind!r}; it must be one of {', '.join(_CLASSES)}{windows}")
    return _CLASSES[name]
