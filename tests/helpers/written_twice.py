"""Places of a tensor that one assignment names twice: which of the two numbers stays there, torch does not say."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class WrittenTwice(TorchDispatchMode):
    """with WrittenTwice() as found: …; then found.any says whether an assignment by indices had one of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.any = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        if name in ("index_put_", "_index_put_impl_", "index_put"):
            self._look([x for x in args[1] if x is not None and x.dtype != torch.bool])
        elif name in ("index_copy_", "index_copy"):
            self._look([args[2]])
        return function(*args, **(kwargs or {}))

    def _look(self, indices: list[torch.Tensor]) -> None:
        if indices:
            places = torch.stack([x.flatten() for x in torch.broadcast_tensors(*indices)])
            self.any |= places.unique(dim=1).shape[1] < places.shape[1]
