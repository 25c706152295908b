"""Who computes: Triton's kernels or torch's operations. One switch, and a reason wherever the answer is no."""

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec
from typing import Literal, get_args

import torch
from torch import Tensor

from .._require import how_to_install

Backend = Literal["auto", "triton", "torch"]
KERNEL_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_switch: Backend = "auto"


class KernelUnavailable(RuntimeError):
    """Triton's kernel was asked for by name and cannot run here; the message says why."""


def set_backend(backend: Backend) -> Backend:
    """Choose who computes, for every call of this process that does not say so itself; return who did before.

    Args:
        backend: "auto", Triton for tensors on a GPU that its kernel takes, else torch; "triton", or an error that says
            why it cannot; "torch", always.

    Raises:
        ValueError: another name.
    """
    global _switch
    previous, _switch = _switch, _known(backend)
    return previous


def chosen(backend: Backend | None) -> Backend:
    """Return who is to compute a call; None means what `set_backend` has chosen.

    Raises:
        ValueError: an unknown backend.
    """
    return _switch if backend is None else _known(backend)


def uses_triton(backend: Backend | None, beyond: str | None = None, **tensors: Tensor) -> bool:
    """Return whether Triton's kernel is to compute this call; None for `backend` means what `set_backend` has chosen.

    Args:
        beyond: why the kernel does not take the shapes, if it does not.
        tensors: the inputs by name.

    Raises:
        KernelUnavailable: "triton" was chosen, and the kernel cannot run or does not take this.
        ValueError: an unknown backend.
    """
    backend = chosen(backend)
    if backend == "torch":
        return False
    if backend == "auto" and (_interpreted() or not all(x.is_cuda for x in tensors.values())):
        return False  # the interpreter is for checks: nobody gets it unasked
    reason = beyond or _why_not(tensors)
    if reason and backend == "triton":
        raise KernelUnavailable(f"Triton's kernel cannot compute this: {reason}; backend='torch' can")
    return not reason


def on_device_of(x: Tensor) -> AbstractContextManager[object]:
    """Return the context that launches kernels on x's GPU, which need not be the current one."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def _known(backend: Backend) -> Backend:
    if backend not in get_args(Backend):
        raise ValueError(f"backend is {backend!r}; it must be one of {', '.join(get_args(Backend))}")
    return backend


def _why_not(tensors: dict[str, Tensor]) -> str | None:
    """The reason why Triton cannot compute with these tensors; None where it can."""
    for name, x in tensors.items():
        if x.is_floating_point() and x.dtype not in KERNEL_DTYPES:
            return f"{name} is {_short(x.dtype)}, and it takes {', '.join(map(_short, KERNEL_DTYPES))}"
        if x.requires_grad and torch.is_grad_enabled():
            return f"{name} wants a gradient, and it has none"
    if not _installed():
        return f"triton is not installed ({how_to_install('kernels')}; there are builds for Linux only)"
    for name, x in tensors.items():
        if not x.is_cuda and not _interpreted():
            return (
                f"{name} is on {x.device}, and it needs a GPU (Triton's interpreter can check it on a CPU: set "
                "TRITON_INTERPRET=1 before Python starts)"
            )
    return None


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


@cache
def _interpreted() -> bool:
    """Whether Triton interprets its kernels. It decides that for each when it is defined: later is too late."""
    if "TRITON_INTERPRET" not in os.environ:
        return False
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    return isinstance(tl.cdiv, InterpretedFunction)
