"""What the layers of some families have besides their products: biases, norms of queries and keys, clipping."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "projections": [
        "BiasedLinear",
        "QKVProjection",
        "linear",
        "qkv_projection",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .projections import BiasedLinear as BiasedLinear
    from .projections import QKVProjection as QKVProjection
    from .projections import linear as linear
    from .projections import qkv_projection as qkv_projection
