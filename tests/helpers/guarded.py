"""Memory in which a kernel cannot go astray unnoticed, under Triton's interpreter.

Inputs lie in larger tensors full of poison (NaN where there are floats), with some before, behind and between all rows;
outputs are made with guards around them. Every address that a kernel reads or writes is looked up among those that it
was given, element by element, before it is touched; afterwards all poison must be as it was.
"""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from triton.runtime import interpreter

GUARD = 3  # numbers around everything


class Memory:
    """with Memory() as memory: out = kernel(memory.embed(x), …), and an error where the kernel goes astray."""

    def __init__(self) -> None:
        self._readable, self._writable = np.empty(0, np.uint64), np.empty(0, np.uint64)
        self._guards: list[tuple[Tensor, Tensor, Tensor]] = []  # bytes, which of them are guards, as they were
        self._real_empty, self._real = torch.empty, interpreter._interpreter

    def embed(self, x: Tensor, may_read: Tensor | None = None) -> Tensor:
        """Return x's numbers as a view into a larger tensor. `may_read` is True where a kernel has reason to read."""
        padded = self._poisoned([n + 2 * GUARD for n in x.shape], x.dtype)
        view = padded[tuple(slice(GUARD, -GUARD) for _ in x.shape)]
        view.copy_(x)
        addresses = _addresses(view)
        allowed = addresses if may_read is None else addresses[may_read.expand_as(x).numpy()]
        self._readable = np.union1d(self._readable, allowed)
        everything = padded.view(torch.uint8).flatten()
        self._guards.append((everything, torch.ones_like(everything, dtype=torch.bool), everything.clone()))
        return view

    def __enter__(self) -> "Memory":
        watched = SimpleNamespace(**{name: getattr(self._real, name) for name in dir(self._real)})
        watched.load, watched.store = self._load, self._store
        self._patches = [patch.object(torch, "empty", self._empty), patch.object(interpreter, "_interpreter", watched)]
        for each in self._patches:
            each.start()
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        for each in self._patches:
            each.stop()
        if kind is None:
            for everything, guard, before in self._guards:
                assert torch.equal(everything[guard], before[guard]), "a guard was overwritten"

    def _poisoned(self, shape: list[int], dtype: torch.dtype) -> Tensor:
        poison = torch.nan if dtype.is_floating_point else torch.iinfo(dtype).max
        return self._real_empty(shape, dtype=dtype).fill_(poison)

    def _empty(self, *shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """As torch.empty, with guards before and behind; a kernel may read what it has been given to write."""
        assert device.type == "cpu"
        n = int(np.prod(shape))
        padded = self._poisoned([n + 2 * GUARD], dtype)
        guard = torch.ones(len(padded), padded.element_size(), dtype=torch.bool)
        guard[GUARD:-GUARD] = False
        everything = padded.view(torch.uint8)
        self._guards.append((everything, guard.flatten(), everything.clone()))
        result = padded[GUARD:-GUARD].view(shape)
        self._writable = np.union1d(self._writable, _addresses(result))
        self._readable = np.union1d(self._readable, self._writable)
        return result

    def _load(self, pointers: np.ndarray, mask: np.ndarray, *rest: object) -> np.ndarray:
        assert np.isin(pointers[mask], self._readable).all(), "a kernel read what it was not given"
        return self._real.load(pointers, mask, *rest)

    def _store(self, pointers: np.ndarray, values: np.ndarray, mask: np.ndarray) -> None:
        assert np.isin(pointers[mask], self._writable).all(), "a kernel wrote where it must not"
        assert len(np.unique(pointers[mask])) == mask.sum(), "a kernel wrote one place twice"
        self._real.store(pointers, values, mask)


def _addresses(x: Tensor) -> np.ndarray:
    """The address of every element, in x's shape."""
    offsets = np.zeros(x.shape, np.int64)
    for axis, (n, stride) in enumerate(zip(x.shape, x.stride(), strict=True)):
        offsets += (np.arange(n) * stride).reshape([n if i == axis else 1 for i in range(x.ndim)])
    return (x.data_ptr() + offsets * x.element_size()).astype(np.uint64)
