"""Who may look at whom, when nobody looks back further than a window."""

import torch
from jaxtyping import Bool
from torch import Tensor

from .._require import require_count

from course import NotYetWritten


def sliding_window_mask(T: int, S: int, window: int, device: torch.device | str = "cpu") -> Bool[Tensor, "T S"]:
    """Return who may look at whom: True where the query may see the key.

    As in `causal_mask` the T queries are the last T of S positions. A query at position p sees the `window` keys
    p - window + 1 … p, itself the last of them; near the start of the text there are fewer.

    Raises:
        ValueError: window not a whole number, 1 or more.
    """
    raise NotYetWritten(
        "exercise 9.12 sliding_window_mask is not written yet: read "
        "notebooks/week09_smaller_cache/week09_smaller_cache.ipynb, write it in exercises/window/masks.py, then "
        "run: NANOLM_IMPL=exercises python -m pytest tests/window/test_window.py --exercise sliding_window_mask"
    )
