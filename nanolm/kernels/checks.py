"""What the wrappers of all kernels refuse alike: a kernel that is given wrong shapes reads somebody else's memory."""

import torch
from torch import Tensor

_INDEX_DTYPES = (torch.int32, torch.int64)


def require_dims(n: int, legend: str, **tensors: Tensor) -> None:
    """Raise a ValueError unless every tensor has n dimensions, which the legend names."""
    for name, x in tensors.items():
        if x.ndim != n:
            raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be {legend}")


def require_alike(**tensors: Tensor) -> None:
    """Raise a ValueError unless all tensors hold floats of one type and lie on one device."""
    (first, x), *others = tensors.items()
    if not x.is_floating_point():
        raise ValueError(f"{first} holds {x.dtype}; it must hold floats")
    for name, other in others:
        if other.dtype != x.dtype:
            raise ValueError(f"{name} holds {other.dtype} and {first} {x.dtype}; both must hold the same type")
    require_one_device(**tensors)


def require_one_device(**tensors: Tensor) -> None:
    """Raise a ValueError unless all tensors lie on one device."""
    (first, x), *others = tensors.items()
    for name, other in others:
        if other.device != x.device:
            raise ValueError(f"{name} is on {other.device} and {first} on {x.device}; both must be on one device")


def require_indices(**tensors: Tensor) -> None:
    """Raise a ValueError unless every tensor holds int32 or int64 numbers."""
    for name, x in tensors.items():
        if x.dtype not in _INDEX_DTYPES:
            raise ValueError(f"{name} holds {x.dtype}; it must hold int32 or int64 numbers")
