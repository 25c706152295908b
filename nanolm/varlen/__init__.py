"""One pass of a model over tokens of many requests: which lie behind one another, and attend each to its own."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "paged_rows": [
        "Kernel",
        "PagedRows",
        "Segment",
        "Shortcuts",
        "groups_of",
    ],
    "varlen_batch": [
        "VarlenBatch",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .paged_rows import Kernel as Kernel
    from .paged_rows import PagedRows as PagedRows
    from .paged_rows import Segment as Segment
    from .paged_rows import Shortcuts as Shortcuts
    from .paged_rows import groups_of as groups_of
    from .varlen_batch import VarlenBatch as VarlenBatch
