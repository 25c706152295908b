"""The machine under a benchmark: its name, and the rates from which a bound on the figures follows."""

import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from nanolm.machine import processor_name


def describe(threads: bool = True) -> dict[str, Any]:
    """Return what a reader must know of the machine to judge a figure: processor, cores, threads used, versions.

    Args:
        threads: whether this process's threads are those of the figures; not where other processes do the work.
    """
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads() if threads else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "load_before": load,
    }


def one_line(machine: dict[str, Any]) -> str:
    """Return the description as a line to print beside the figures; a busy machine is told of."""
    cores, threads = f"{machine['cores']} cores", machine["threads"]
    if threads is not None:
        cores = f"{threads} thread{'s' if threads > 1 else ''} on {cores}"
    busy = machine["load_before"] is not None and machine["load_before"] > max(1, machine["cores"] / 2)
    return (
        f"{machine['processor']}, {cores}{' (BUSY with other work: measure again)' if busy else ''}, "
        f"torch {machine['torch']}, Python {machine['python']}"
    )


def read_bandwidth(n_bytes: int) -> float:
    """Return bytes a second at which a block of `n_bytes` is read over and over, as weights are in decoding.

    The size matters: a small model's weights stay in the processor's cache and are read faster than memory can.
    """
    block = torch.ones(n_bytes // 4, dtype=torch.float32)
    return block.nbytes / _median_seconds(block.sum)


def multiply_rate() -> float:
    """Return float32 operations a second in a product of two 768 × 768 matrices, where nothing waits for memory."""
    n = 768
    a, b = torch.ones(n, n), torch.ones(n, n)
    return 2 * n**3 / _median_seconds(lambda: a @ b)


def smallest_operation_seconds() -> float:
    """Return the seconds of a torch operation with next to nothing to do: the price of asking."""
    x, n = torch.ones(1, 1, 128), 200

    def many() -> None:
        for _ in range(n):
            x.add(x)

    return _median_seconds(many) / n


@torch.inference_mode()
def _median_seconds(call: Callable[[], Any], repeats: int = 15) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
