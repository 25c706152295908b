"""Who may look at whom: masks of attention, True where a query may see a key."""

import torch
from jaxtyping import Bool
from torch import Tensor


def causal_mask(T: int, S: int, device: torch.device | str = "cpu") -> Bool[Tensor, "T S"]:
    """Return who may look at whom: True where the query may see the key.

    The T queries are the *last* T of S positions, so query t stands at position S - T + t and sees the keys
    0 … S - T + t: itself and all before it. (PyTorch's is_causal aligns the triangle top-left instead, which is
    right for S = T only.)
    """
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)
