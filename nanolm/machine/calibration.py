"""Measure this machine as a decoder uses it: how fast it reads weights and multiplies, and what an operation costs.

The loads are the engine's own. Decoding multiplies every matrix by one vector, so reading is timed as such products,
over sets of matrices that fit a processor's cache and sets that do not. A small model waits for neither reading nor
arithmetic but for hundreds of small operations, so these are timed too. It takes a few seconds, once: the result is
kept on disk, unless the rounds disagree because something else ran on the machine.
"""

import contextlib
import datetime
import math
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..budget.hardware import Hardware
from ..model.decoder import NanoLM
from .device import require_device
from .loads import CPU_PLAN, GPU_PLAN, NUMBERS, models_of, product_of, sets_of
from .measurement import Measurement, OperationCost, Reading, cache_folder, main_memory_bytes, processor_name
from .prediction import count_operations, decode_step_of, reading_seconds, weights_read

_ROUNDS = 5
_LEAST_SECONDS = 2e-3  # of one timing: shorter ones are repeated, so that the clock's own cost does not count


def calibrate(device: str = "cpu", refresh: bool = False, folder: Path | None = None) -> Measurement:
    """Return what was measured of a device of this machine: from disk, or now.

    A stored measurement counts only for the machine, processor, number of threads and torch it was made with; another
    one, or a file that cannot be read, is made anew. One that was made on a busy machine is returned but not kept, and
    where nothing can be written the result is returned all the same.

    Args:
        device: "cpu", "cuda", "cuda:1", … or "mps".
        refresh: measure now, whatever is stored.
        folder: where measurements are kept; None means the user's cache folder.

    Raises:
        ValueError: this machine has no such device.
    """
    where = require_device(device)
    identity = {
        "machine": platform.node(),
        "processor": torch.cuda.get_device_name(where) if where.type == "cuda" else processor_name(),
        "device": device,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    file = (folder or cache_folder()) / f"{device.replace(':', '-')}-{identity['threads']}.json"
    stored = None if refresh else Measurement.load(file)
    if stored is not None and all(getattr(stored, name) == value for name, value in identity.items()):
        return stored
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    measured = Measurement(**identity, date=now, memory_bytes=memory_bytes(where), **_measure(where))
    if measured.is_steady:
        with contextlib.suppress(OSError):
            measured.save(file)
    return measured


def memory_bytes(device: torch.device) -> float:
    """Return the bytes of memory that a device has for weights and caches; for a CPU, all of the computer's.

    Raises:
        OSError: the system does not tell.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return torch.mps.recommended_max_memory() if device.type == "mps" else main_memory_bytes()


@torch.inference_mode()
def _measure(device: torch.device) -> dict[str, Any]:
    """The measured fields of a Measurement: medians over rounds in which everything has its turn."""
    plan = CPU_PLAN if device.type == "cpu" else GPU_PLAN
    sets, models = sets_of(plan, device, memory_bytes(device) / 4), models_of(plan, device)
    calls: dict[Any, Callable[[], Any]] = {**sets, "product": product_of(plan, device)}
    calls |= {("step", model): decode_step_of(model) for _, model in models}
    rounds = _rounds(calls, device)
    seconds = {name: statistics.median(times) for name, times in rounds.items()}
    readings: dict[str, list[Reading]] = {}
    for kind, size, row in sets:
        readings.setdefault(kind, []).append(Reading(size, row, size / seconds[kind, size, row]))
    T, D, F_ = plan.product
    found = {
        "readings": readings.pop(NUMBERS),
        "packed_readings": readings,
        "matmul_flops_per_second": 2 * T * D * F_ / seconds["product"],
        "spread": statistics.median(max(times) / min(times) for times in rounds.values()),
    }
    costs: dict[str, list[OperationCost]] = {}
    for kind, model in models:
        costs.setdefault(kind, []).append(_operation_cost(model, seconds["step", model], found))
    in_order = {kind: sorted(of_kind) for kind, of_kind in costs.items()}
    return found | {"operations": in_order.pop(NUMBERS), "packed_operations": in_order}


def _operation_cost(model: NanoLM, step: float, found: dict[str, Any]) -> OperationCost:
    # What a step takes beyond its reading at the rates found, so that the two add up to the step. A GPU reads while it
    # is asked for more, so there all of the step is asking. A tenth of it is the least that is credible.
    reading = reading_seconds(found["readings"], found["packed_readings"], model) if model.device.type == "cpu" else 0
    size, n_operations = sum(weight.nbytes for weight in weights_read(model)), count_operations(decode_step_of(model))
    return OperationCost(size / n_operations, max(step - reading, step / 10) / n_operations)


def _rounds(calls: dict[Any, Callable[[], Any]], device: torch.device) -> dict[Any, list[float]]:
    """The seconds of each call in every round."""
    seconds: dict[Any, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            # The turn before has pushed these data out of the cache: the first run brings back what fits.
            first = _seconds(call, 1, device)
            repeats = math.ceil(_LEAST_SECONDS / max(first, 1e-9))
            is_long = first > 10 * _LEAST_SECONDS  # such data fit nowhere
            seconds[name].append(first if is_long else _seconds(call, repeats, device) / repeats)
    return seconds


def _seconds(call: Callable[[], Any], repeats: int, device: torch.device) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter() - start


def measure_hardware(device: str = "cpu", refresh: bool = False) -> Hardware:
    """Return this machine, measured as a decoder uses it; takes a few seconds once, and is then kept on disk.

    The bandwidth is that of weights too large for any cache, and P on a CPU is the rate in float32. Its price is
    what the current for it costs, roughly. `calibrate` returns all that was measured, such as the bandwidth of weights
    that do stay in the cache.

    Args:
        device: "cpu", "cuda", "cuda:1", … or "mps".
        refresh: measure again; what else runs on a machine at that moment lowers its figures.

    Raises:
        ValueError: this machine has no such device.
    """
    return calibrate(device, refresh).hardware()
