"""How many operations of torch a piece of code runs: work that is done for each position shows in it."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Operations(TorchDispatchMode):
    """with Operations() as operations: …; then operations.n is how many torch has run."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += 1
        return function(*args, **(kwargs or {}))
