"""A mixture of experts in place of the feed-forward block: many blocks, of which each token goes through k.

Shazeer 2017, "Outrageously large neural networks"; in the form of Jiang 2024, "Mixtral of experts", section 2.1.
Memory holds all E experts, the arithmetic of a token is that of k, and how many a step reads from memory depends on
the batch: one token reads k, many read nearly all. `mixture` has the arithmetic of that, without torch.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from .config import ModelConfig
from .mixture import (  # noqa: F401
    ParameterCounts,
    effective_experts,
    expected_unused_experts,
    expected_unused_given,
    load_imbalance,
    parameter_counts,
)

from course import NotYetWritten


def route(logits: Float[Tensor, "... E"], k: int) -> tuple[Int[Tensor, "... k"], Float[Tensor, "... k"]]:
    """Return the k experts with the largest logits, the largest first, and their shares of the output.

    The shares are the softmax over the k chosen logits alone, so that they add up to 1. Of equal logits the expert
    with the lower id comes first.

    Args:
        logits: the router's scores, one for each of E experts.
        k: experts per token.

    Raises:
        ValueError: k outside 1 … E, or logits that hold NaN or an infinity.
    """
    raise NotYetWritten(
        "exercise 8.1 route is not written yet: read "
        "notebooks/week08_mixture_of_experts/week08_mixture_of_experts.ipynb, write it in exercises/moe.py, then "
        "run: NANOLM_IMPL=exercises python -m pytest tests/test_moe.py -k route"
    )


def mix_experts(
    x: Float[Tensor, "P D"],
    experts: Int[Tensor, "P k"],
    shares: Float[Tensor, "P k"],
    run: Callable[[int, Tensor], Tensor],
) -> Float[Tensor, "P D"]:
    """Return for each of P positions the sum over its k experts of share · (the expert's output on its row of x).

    Each expert that is chosen at all runs once, over all rows that chose it: its weights are read once. The others are
    left alone. Nothing is done position by position.

    Args:
        x: one row a position; P at least 1.
        experts: the ids of the experts chosen, no id twice in a row.
        shares: what each counts, in the same places.
        run: run(expert, rows) returns that expert's outputs, (n, D), for n rows of x.
    """
    raise NotYetWritten(
        "exercise 8.2 mix_experts is not written yet: read "
        "notebooks/week08_mixture_of_experts/week08_mixture_of_experts.ipynb, write it in exercises/moe.py, then "
        "run: NANOLM_IMPL=exercises python -m pytest tests/test_moe.py -k mix_experts"
    )


class StackedLinear(nn.Module):
    """The linear layers of E experts, without bias, in one tensor: (E, out, in)."""

    def __init__(self, n_experts: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_experts, out_features, in_features) / in_features**0.5)

    def forward(self, x: Float[Tensor, "n in"], expert: int) -> Float[Tensor, "n out"]:
        """Return x · Wᵀ with the expert's weights, which are looked at and not copied."""
        return F.linear(x, self.weight[expert])

    def of_first(self, n_experts: int) -> list[Tensor]:
        """Return what a pass reads that runs so many experts: their weights, all in one view."""
        return [self.weight[:n_experts]]


class SeparateLinear(nn.ModuleList):
    """The same as one module an expert, so that each can be exchanged: for a quantized one, say."""

    def forward(self, x: Float[Tensor, "n in"], expert: int) -> Float[Tensor, "n out"]:
        """Return the expert's product with x."""
        return self[expert](x)

    def of_first(self, n_experts: int) -> list[Tensor]:
        """Return what a pass reads that runs so many experts."""
        return [tensor for module in self[:n_experts] for tensor in (*module.parameters(), *module.buffers())]


class MoE(nn.Module):
    """A drop-in for FeedForward: a router, and E SwiGLU blocks of width F of which each position goes through k."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_experts, self.experts_per_token = config.n_experts, config.experts_per_token
        self.router = nn.Linear(config.d_model, config.n_experts, bias=False)
        self.gate_up = StackedLinear(config.n_experts, config.d_model, 2 * config.d_ff)
        self.down = StackedLinear(config.n_experts, config.d_ff, config.d_model)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the feed-forward output, each position on its own.

        `self.router` scores the experts for each of the P = B·T positions, `route` chooses experts_per_token of them,
        and `run_expert` runs the chosen, each once for all of its positions (`mix_experts`). Others are left alone.
        """
        raise NotYetWritten(
            "exercise 8.3 MoE.forward is not written yet: read "
            "notebooks/week08_mixture_of_experts/week08_mixture_of_experts.ipynb, write it in exercises/moe.py, "
            "then run: NANOLM_IMPL=exercises python -m pytest tests/test_moe.py -k forward"
        )

    def run_expert(self, expert: int, rows: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
        """Return one expert's output for rows that chose it."""
        gate, up = self.gate_up(rows, expert).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up, expert)


def separate_experts(model: nn.Module) -> None:
    """Exchange a model's StackedLinear modules for SeparateLinear ones, in place.

    The weights of their nn.Linear modules are views of the stacked ones, without gradient: for inference.
    """
    for name, stacked in list(model.named_modules()):
        if isinstance(stacked, StackedLinear):
            model.set_submodule(name, SeparateLinear(_linear_of(weight) for weight in stacked.weight.detach()))


def _linear_of(weight: Float[Tensor, "out in"]) -> nn.Linear:
    linear = nn.Linear(*weight.T.shape, bias=False, device="meta")  # no numbers drawn: the weight is there already
    linear.weight = nn.Parameter(weight, requires_grad=False)
    return linear


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
    hooks = [
        moe.router.register_forward_hook(
            lambda _, inputs, logits, passes=passes, k=moe.experts_per_token: passes.append(route(logits, k)[0])
        )
        for moe, passes in zip(mixtures, stats.choices, strict=True)
    ]
    try:
        yield stats
    finally:
        for hook in hooks:
            hook.remove()
