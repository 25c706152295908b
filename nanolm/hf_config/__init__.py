"""What a Hugging Face config.json says: the families that we run, and every entry read or refused by its name."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "deepseek": [
        "read_deepseek",
    ],
    "entries": [
        "LARGEST",
        "flag",
        "number",
        "read_counts",
        "read_sizes",
        "token_id",
        "token_ids",
    ],
    "families": [
        "CONTEXT",
        "DEEPSEEK_EXPERTS",
        "DEEPSEEK_READ",
        "FAMILIES",
        "Family",
        "LATENT",
        "MAY_LACK",
        "MIXTRAL_EXPERTS",
        "MOST_EXPERTS",
        "MOST_LAYERS",
        "OTHERS",
        "READ",
        "SIZES",
        "WITHOUT_EFFECT",
    ],
    "read": [
        "read_hf_config",
        "refuse_unknown",
    ],
    "rope": [
        "read_rope",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .deepseek import read_deepseek as read_deepseek
    from .entries import LARGEST as LARGEST
    from .entries import flag as flag
    from .entries import number as number
    from .entries import read_counts as read_counts
    from .entries import read_sizes as read_sizes
    from .entries import token_id as token_id
    from .entries import token_ids as token_ids
    from .families import CONTEXT as CONTEXT
    from .families import DEEPSEEK_EXPERTS as DEEPSEEK_EXPERTS
    from .families import DEEPSEEK_READ as DEEPSEEK_READ
    from .families import FAMILIES as FAMILIES
    from .families import Family as Family
    from .families import LATENT as LATENT
    from .families import MAY_LACK as MAY_LACK
    from .families import MIXTRAL_EXPERTS as MIXTRAL_EXPERTS
    from .families import MOST_EXPERTS as MOST_EXPERTS
    from .families import MOST_LAYERS as MOST_LAYERS
    from .families import OTHERS as OTHERS
    from .families import READ as READ
    from .families import SIZES as SIZES
    from .families import WITHOUT_EFFECT as WITHOUT_EFFECT
    from .read import read_hf_config as read_hf_config
    from .read import refuse_unknown as refuse_unknown
    from .rope import read_rope as read_rope
