"""What an answer can set for the whole process, put back after each test: no test depends on the one before."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def settings_kept() -> Iterator[None]:
    """Give back torch's default dtype, its gradients and threads, and the random states of Python and NumPy."""
    with _random_states_kept(), _torch_kept():
        yield


@contextmanager
def _random_states_kept() -> Iterator[None]:
    numpy = sys.modules.get("numpy.random")  # whoever has not loaded it has set nothing in it that matters to others
    ours, theirs = random.getstate(), numpy and numpy.get_state()
    try:
        yield
    finally:
        random.setstate(ours)
        if numpy:
            numpy.set_state(theirs)


@contextmanager
def _torch_kept() -> Iterator[None]:
    torch = None
    with suppress(ModuleNotFoundError):  # in a browser's tab, where there is none
        import torch
    if torch is None:
        yield
        return
    dtype, records, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(records)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
