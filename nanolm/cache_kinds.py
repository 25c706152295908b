"""Which cache a model is given: floats of the model's own type, or one byte a number; equal rows, or ragged ones."""

from typing import Literal

from .cache import KVCache, RaggedKVCache
from .quantized_cache import Float8KVCache, Int8KVCache, RaggedFloat8KVCache, RaggedInt8KVCache

CacheKind = Literal["float", "int8", "float8"]

_CLASSES: dict[str, tuple[type[KVCache], type[RaggedKVCache]]] = {
    "float": (KVCache, RaggedKVCache),
    "int8": (Int8KVCache, RaggedInt8KVCache),
    "float8": (Float8KVCache, RaggedFloat8KVCache),
}


def cache_class(kind: CacheKind, ragged: bool = False) -> type[KVCache]:
    """Return the class of cache that keeps keys and values as this kind of number.

    Args:
        kind: "float", the number type of the model; "int8", codes with a scale a head; "float8", 8-bit floats.
        ragged: whether every row has a length of its own.

    Raises:
        ValueError: another kind.
    """
    if kind not in _CLASSES:
        raise ValueError(f"cache_kind is {kind!r}; it must be one of {', '.join(_CLASSES)}")
    return _CLASSES[kind][ragged]
