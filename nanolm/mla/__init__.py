"""Latent attention (DeepSeek-V2), whole: the mathematics, its cache in rows and in blocks, the layer, a small model."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "attention": [
        "absorbed_attention",
        "latent_multiplications",
        "latent_softmax",
        "naive_attention",
    ],
    "cache": [
        "MLACache",
    ],
    "layer": [
        "MLA",
        "projection_through",
    ],
    "model": [
        "DEMO_CONFIG",
        "DEMO_LATENT",
        "LatentLM",
    ],
    "paged_cache": [
        "LatentPagedCache",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .attention import absorbed_attention as absorbed_attention
    from .attention import latent_multiplications as latent_multiplications
    from .attention import latent_softmax as latent_softmax
    from .attention import naive_attention as naive_attention
    from .cache import MLACache as MLACache
    from .layer import MLA as MLA
    from .layer import projection_through as projection_through
    from .model import DEMO_CONFIG as DEMO_CONFIG
    from .model import DEMO_LATENT as DEMO_LATENT
    from .model import LatentLM as LatentLM
    from .paged_cache import LatentPagedCache as LatentPagedCache
