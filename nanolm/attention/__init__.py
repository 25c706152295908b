"""Attention as mathematics on tensors: rotation, masks, softmax attention plain, in tiles and over blocks.

No module and no cache: what is cached, and where, is the business of `nanolm.cache` and `nanolm.paging`.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "across": [
        "Peers",
        "merge_across",
    ],
    "dot_product": [
        "attend",
    ],
    "flash": [
        "SoftmaxState",
        "flash_attention",
        "merge",
        "online_softmax",
        "require_heads",
        "score_matrix_bytes",
        "split_k_attention",
        "weighted_sum",
    ],
    "masks": [
        "causal_mask",
    ],
    "paged": [
        "check_tables",
        "gather_blocks",
        "paged_attention",
    ],
    "prefill": [
        "LARGEST_HEAD",
        "prefill_attention",
    ],
    "rope": [
        "FIRST_TABLE",
        "Offset",
        "RotaryTable",
        "Rotation",
        "apply_rope",
        "positions_of",
    ],
    "rope_scaling": [
        "ScaledRotaryTable",
        "rotary_table",
        "scaled_speeds",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .across import Peers as Peers
    from .across import merge_across as merge_across
    from .dot_product import attend as attend
    from .flash import SoftmaxState as SoftmaxState
    from .flash import flash_attention as flash_attention
    from .flash import merge as merge
    from .flash import online_softmax as online_softmax
    from .flash import require_heads as require_heads
    from .flash import score_matrix_bytes as score_matrix_bytes
    from .flash import split_k_attention as split_k_attention
    from .flash import weighted_sum as weighted_sum
    from .masks import causal_mask as causal_mask
    from .paged import check_tables as check_tables
    from .paged import gather_blocks as gather_blocks
    from .paged import paged_attention as paged_attention
    from .prefill import LARGEST_HEAD as LARGEST_HEAD
    from .prefill import prefill_attention as prefill_attention
    from .rope import FIRST_TABLE as FIRST_TABLE
    from .rope import Offset as Offset
    from .rope import RotaryTable as RotaryTable
    from .rope import Rotation as Rotation
    from .rope import apply_rope as apply_rope
    from .rope import positions_of as positions_of
    from .rope_scaling import ScaledRotaryTable as ScaledRotaryTable
    from .rope_scaling import rotary_table as rotary_table
    from .rope_scaling import scaled_speeds as scaled_speeds
