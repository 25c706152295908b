"""Which devices this machine has."""

import torch


def require_device(name: str) -> torch.device:
    """Return the device of that name: "cpu", "cuda", "cuda:1", … or "mps".

    Raises:
        ValueError: this machine has no such device; the message lists those it has.
    """
    cuda = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    there = ["cpu", *(["cuda", *cuda] if cuda else []), *(["mps"] if torch.backends.mps.is_available() else [])]
    if name not in there:
        raise ValueError(f"device is {name!r}; this machine has {', '.join(there)}")
    return torch.device(name)
