"""A mixture of experts in place of the feed-forward block: many blocks, of which each token goes through k.

Shazeer 2017, "Outrageously large neural networks"; in the form of Jiang 2024, "Mixtral of experts", section 2.1.
Memory holds all E experts, the arithmetic of a token is that of k, and how many a step reads from memory depends on
the batch: one token reads k, many read nearly all. `budget.experts` has the arithmetic of that, without torch.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..config import ModelConfig
from .expert_layers import StackedLinear

from course import NotYetWritten


def route(logits: Float[Tensor, "... E"], k: int) -> tuple[Int[Tensor, "... k"], Float[Tensor, "... k"]]:
    """Return the k experts with the largest logits, the largest first, and their shares of the output.

    The shares are the softmax over the k chosen logits alone, so that they add up to 1. Of equal logits the expert
    with the lower id comes first.

    Args:
        logits: the router's logits, one for each of E experts.
        k: experts per token.

    Raises:
        ValueError: k outside 1 … E, or logits that hold NaN or an infinity.
    """
    raise NotYetWritten(
        "exercise 8.1 route is not written yet: read "
        "notebooks/week08_mixture_of_experts/week08_mixture_of_experts.ipynb, write it in exercises/model/moe.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/model/test_route.py --exercise route"
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
        "notebooks/week08_mixture_of_experts/week08_mixture_of_experts.ipynb, write it in exercises/model/moe.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/model/test_mix_experts.py --exercise mix_experts"
    )


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
            "notebooks/week08_mixture_of_experts/week08_mixture_of_experts.ipynb, write it in "
            "exercises/model/moe.py, then run: NANOLM_IMPL=exercises python -m pytest tests/model/test_moe.py "
            "--exercise MoE.forward"
        )

    def run_expert(self, expert: int, rows: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
        """Return one expert's output for rows that chose it."""
        gate, up = self.gate_up(rows, expert).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up, expert)
