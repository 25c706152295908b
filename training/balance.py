"""What keeps a mixture's experts equally busy while it learns: an auxiliary loss, and nothing of it in the model.

Left to itself a router sends everything to the few experts that were good first, and the others learn nothing
(Fedus 2021, "Switch transformers", section 2.2).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nanolm.model import MoE, route


@contextmanager
def collect_router_logits(model: nn.Module) -> Iterator[list[Tensor]]:
    """A list that fills, while the context is open, with each router's logits (positions, E), layer by layer."""
    found: list[Tensor] = []
    hooks = [
        moe.router.register_forward_hook(lambda module, inputs, logits: found.append(logits))
        for moe in model.modules()
        if isinstance(moe, MoE)
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def balance_loss(router_logits: list[Tensor], k: int) -> Tensor | float:
    """Mean over the layers of E · Σ f·P: f an expert's share of all choices, P its mean probability; 1 when balanced.

    A model without routers has nothing to balance: 0.

    f is counted and has no gradient; P, the softmax over all E logits, has one, and it pushes down the experts that
    are chosen most (Fedus 2021, equations 4 to 6; with k choices a token, f counts all of them).
    """
    losses = []
    for logits in router_logits:
        n_experts = logits.shape[-1]
        chosen, _ = route(logits.detach(), k)
        f = F.one_hot(chosen, n_experts).float().mean(dim=(0, 1))
        losses.append(n_experts * (f * logits.float().softmax(dim=-1).mean(dim=0)).sum())
    return torch.stack(losses).mean() if losses else 0.0
