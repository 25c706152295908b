"""Who may look at whom, when nobody looks back further than a window."""

import torch
from jaxtyping import Bool
from torch import Tensor

from .._require import require_count


def sliding_window_mask(T: int, S: int, window: int, device: torch.device | str = "cpu") -> Bool[Tensor, "T S"]:
    """Return who may look at whom: True where the query may see the key.

    As in `causal_mask` the T queries are the last T of S positions. A query at position p sees the `window` keys
    p - window + 1 … p, itself the last of them; near the start of the text there are fewer.

    Raises:
        ValueError: window not a whole number, 1 or more.
    """
    require_count(1, window=window)
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T).triu(S - T - window + 1)
