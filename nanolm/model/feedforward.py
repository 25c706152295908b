"""The feed-forward part of a layer: SwiGLU (Shazeer 2020, "GLU variants improve Transformer", section 2)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..config import ModelConfig
from ..layers.projections import linear
from .grouped_moe import GroupedMoE


class FeedForward(nn.Module):
    """down(silu(gate(x)) · up(x)), with gate and up in one matrix so that x is multiplied once.

    Args:
        width: F; the configuration's if left out.
    """

    def __init__(self, config: ModelConfig, width: int | None = None) -> None:
        super().__init__()
        width = width or config.d_ff
        self.gate_up = linear(config.d_model, 2 * width, config.mlp_bias)
        self.down = linear(width, config.d_model, config.mlp_bias)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the feed-forward output, each position on its own."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class GroupRouter(nn.Linear):
    """A router that leaves a token the experts of a few groups: those whose best expert has the largest logits.

    The groups lie on different devices, and a token travels to a few of them only (DeepSeek-V2, section 2.1.3). What
    is left out gets the lowest logit that there is, which no softmax gives a share.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config.d_model, config.n_experts, bias=False)
        self.n_groups, self.groups_per_token = config.expert_groups, config.groups_per_token

    def forward(self, input: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        """Return the logits."""
        return self.limited(F.linear(input, self.weight))

    def limited(self, logits: Float[Tensor, "... E"]) -> Float[Tensor, "... E"]:
        """Return the logits with the lowest in place of those outside the token's groups."""
        groups = logits.unflatten(-1, (self.n_groups, -1))
        order = groups.amax(dim=-1).sort(dim=-1, descending=True, stable=True).indices
        kept = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order[..., : self.groups_per_token], True)
        return groups.masked_fill(~kept.unsqueeze(-1), torch.finfo(logits.dtype).min).flatten(-2)


class SharedMoE(GroupedMoE):
    """A mixture whose shares need not add up to 1, and that may have an expert that every token goes through.

    The softmax over the chosen experts, which `route` gives, is that over all experts divided by what the chosen have
    of it together. So their weighted sum, times that, is the sum under the softmax over all (Dai 2024, "DeepSeekMoE").
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        if config.expert_groups > 1:
            self.router = GroupRouter(config)
        self.normalize, self.scale = config.normalize_shares, config.routed_scale
        self.shared = FeedForward(config, config.d_ff_shared) if config.d_ff_shared else None
        self.shared_gate = nn.Linear(config.d_model, 1, bias=False) if config.shared_gate else None

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the feed-forward output, each position on its own."""
        y = super().forward(x)
        if not self.normalize:
            # Not self.router(x): whoever watches the router would see every choice twice.
            logits = F.linear(x, self.router.weight)
            shares = logits.float().softmax(dim=-1)
            if isinstance(self.router, GroupRouter):  # its softmax is over all experts, its choice is not
                shares = shares.where(self.router.limited(logits) == logits, 0.0)
            y = y * shares.topk(self.experts_per_token, dim=-1).values.sum(dim=-1, keepdim=True).to(y.dtype)
        y = y if self.scale == 1 else y * self.scale
        if self.shared is None:
            return y
        always = self.shared(x)
        return y + (always if self.shared_gate is None else always * self.shared_gate(x).sigmoid())


def feedforward_of(config: ModelConfig, layer: int) -> nn.Module:
    """Return a layer's feed-forward part: one block, or a mixture."""
    if layer in config.dense_layers:
        return FeedForward(config, config.d_ff_dense)
    if not config.n_experts:
        return FeedForward(config)
    special = config.d_ff_shared or not config.normalize_shares or config.routed_scale != 1 or config.expert_groups > 1
    return SharedMoE(config) if special else GroupedMoE(config)
