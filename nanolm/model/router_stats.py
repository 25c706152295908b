"""What the routers of a mixture choose, watched while it computes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor, nn

from .moe import MoE, route


@dataclass
class RouterStats:
    """What a model's routers chose while they were watched.

    Attributes:
        n_experts: E.
        choices: for each layer one tensor a pass, (positions, k): the experts of each position, the strongest first.
    """

    n_experts: int
    choices: list[list[Int[Tensor, "positions k"]]]

    @property
    def counts(self) -> Int[Tensor, "L E"]:
        """How often each layer's experts were chosen, in all passes together."""
        return torch.stack([torch.cat(passes).flatten().bincount(minlength=self.n_experts) for passes in self.choices])

    @property
    def experts_read(self) -> Int[Tensor, "L passes"]:
        """How many different experts each pass used in each layer: so many it had to read."""
        return torch.tensor([[len(chosen.unique()) for chosen in passes] for passes in self.choices])


@contextmanager
def watch_routers(model: nn.Module) -> Iterator[RouterStats]:
    """Give a RouterStats that fills while the context is open; the model computes as before.

    Raises:
        ValueError: the model has no router.
    """
    mixtures = [module for module in model.modules() if isinstance(module, MoE)]
    if not mixtures:
        raise ValueError("the model has no router to watch: it is not a mixture of experts")
    stats = RouterStats(mixtures[0].n_experts, [[] for _ in mixtures])

    def note_in(passes: list[Tensor], k: int) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        return lambda _, inputs, logits: passes.append(route(logits, k)[0])

    hooks = [
        moe.router.register_forward_hook(note_in(passes, moe.experts_per_token))
        for moe, passes in zip(mixtures, stats.choices, strict=True)
    ]
    try:
        yield stats
    finally:
        for hook in hooks:
            hook.remove()
