"""RMSNorm, plain, and the same in fewer operations for a CPU (Zhang and Sennrich 2019)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x / rms(x), times a learned weight."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return x / sqrt(mean(x²) + eps), times the weight."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class FastRMSNorm(RMSNorm):
    """RMSNorm in four operations where torch's takes eight: in float32 on a CPU, where a small step is made of such.

    Attributes:
        fast: False computes as RMSNorm does.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__(width, eps)
        self.fast = True
        # No buffers, for they are no state; on the CPU also while a model is made without memory, to be loaded.
        self._zero, self._floor = torch.tensor([0.0, (width * eps) ** 0.5], device="cpu").unbind()

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return x / sqrt(mean(x²) + eps), times the weight."""
        if not self.fast or x.dtype is not torch.float32 or not x.is_cpu:
            return super().forward(x)
        # sqrt(mean(x²) + eps) is a hypotenuse over a constant, sqrt(‖x‖² + D·eps) / sqrt(D). A product that is added to
        # zero takes the constant along; to keep sqrt(D) · weight would miss a weight that is written to.
        length = torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self._floor)
        return torch.addcmul(self._zero, x, self.weight / length, value=x.shape[-1] ** 0.5)
