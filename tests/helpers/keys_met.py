"""How many keys one step of a computation brings together: a sum, a maximum, a softmax or a product over them."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class KeysMet(TorchDispatchMode):
    """with KeysMet() as met: …; then met.most is the length of the longest axis that one operation of torch reduced.

    Axes are those of sums, maxima, softmaxes and matrix products of floats; of torch's own attention that of the keys.
    """

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        if "scaled_dot_product" in name:
            self.most = max(self.most, args[1].shape[-2])
        elif name in ("mm", "bmm", "mv", "dot"):
            self.most = max(self.most, args[0].shape[-1])
        elif name in ("sum", "amax", "max", "mean", "logsumexp", "_softmax", "cumsum") and args[0].is_floating_point():
            self.most = max(self.most, *self._reduced(*args))
        return function(*args, **(kwargs or {}))

    def _reduced(self, x: torch.Tensor, axes: Any = None, *_: Any) -> list[int]:
        """The lengths of the axes over which x is reduced."""
        if isinstance(axes, torch.Tensor):
            return [1]  # the larger of two tensors, place by place
        axes = range(x.ndim) if axes is None or axes == [] else [axes] if isinstance(axes, int) else axes
        return [x.shape[axis] for axis in axes] or [1]
