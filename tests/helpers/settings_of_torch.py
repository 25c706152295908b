"""What an answer can set for the whole process, put back after each test: no test depends on the one before."""

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def settings_kept() -> Iterator[None]:
    """Give back torch's default dtype, its recording of gradients and its threads, and Python's random state."""
    state = random.getstate()
    torch = None
    with suppress(ModuleNotFoundError):  # in a browser's tab, where there is none
        import torch
    if torch is None:
        yield
    else:
        before = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
        try:
            yield
        finally:
            dtype, records, threads = before
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(records)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
    random.setstate(state)
