"""What a piece of code needs at once: the tensors alive at the worst moment, counted as torch makes them.

Counted are bytes that tensors ask for, on any device. What an operation takes and gives back inside is not seen, nor
what an allocator keeps in reserve; so the figure is the same on every machine.
"""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakMemory(TorchDispatchMode):
    """with PeakMemory() as memory: …; then the attributes say what the block took, its inputs left out.

    Attributes:
        peak_bytes: tensors made in the block and alive at the same time, at the worst moment.
        largest_bytes: the largest of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak_bytes = self.largest_bytes = 0
        self._alive: dict[int, tuple[weakref.ref, int]] = {}  # by id of the storage; 0 bytes for those of before

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._meet((args, kwargs), counted=False)
        result = function(*args, **(kwargs or {}))
        self._meet(result, counted=True)
        return result

    def _meet(self, tree: Any, counted: bool) -> None:
        """Take in the storages not met before: a view or a result written in place is the memory of an older tensor."""
        for leaf in tree_leaves(tree):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                if id(storage) not in self._alive:
                    self._remember(storage, storage.nbytes() if counted else 0)

    def _remember(self, storage: torch.UntypedStorage, n_bytes: int) -> None:
        name = id(storage)
        self._alive[name] = weakref.ref(storage, lambda _: self._alive.pop(name, None)), n_bytes
        self.largest_bytes = max(self.largest_bytes, n_bytes)
        self.peak_bytes = max(self.peak_bytes, sum(size for _, size in self._alive.values()))
