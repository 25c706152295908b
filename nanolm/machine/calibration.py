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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..budget.hardware import Hardware
from ..config import ModelConfig
from ..model.decoder import NanoLM
from ..quantization.matmul import quantized_matmul
from .device import require_device
from .measurement import Measurement, OperationCost, Reading, cache_folder, main_memory_bytes, processor_name
from .prediction import count_operations, decode_step_of, weights_read

MiB = 2**20
_ROUNDS = 5
_LEAST_SECONDS = 2e-3  # of one timing: shorter ones are repeated, so that the clock's own cost does not count
_ALMOST_NOTHING = ModelConfig(32, 32, n_layers=4, n_heads=2, n_kv_heads=1, head_dim=16, d_ff=32)
_IN_CACHE = ModelConfig(512, 160, n_layers=8, n_heads=4, n_kv_heads=2, head_dim=40, d_ff=448)  # 10 MB in float32
_OUT_OF_CACHE = ModelConfig(512, 1024, n_layers=2, n_heads=16, n_kv_heads=4, head_dim=64, d_ff=2816)  # 92 MB


@dataclass(frozen=True)
class _Plan:
    """What to time on a kind of device: sizes in bytes, a prefill-like product (T, D) × (D, F), whole models."""

    dtype: torch.dtype
    working_sets: tuple[int, ...]
    row_lengths: tuple[int, ...]
    matrix_bytes: int
    product: tuple[int, int, int]
    models: tuple[ModelConfig, ...]
    code_sets: tuple[int, ...] = ()
    code_row_lengths: tuple[int, ...] = ()


_CPU = _Plan(
    torch.float32,
    working_sets=(4 * MiB, 16 * MiB, 64 * MiB, 128 * MiB),
    row_lengths=(128, 512, 1024, 4096),
    matrix_bytes=4 * MiB,
    product=(256, 1024, 4096),
    models=(_ALMOST_NOTHING, _IN_CACHE, _OUT_OF_CACHE),
    code_sets=(4 * MiB, 64 * MiB),
    code_row_lengths=(512, 2048),
)
# A GPU has caches of up to 50 MB, and a small matrix is over before the next operation has been asked for. Asking costs
# the same whatever is read meanwhile, so one model is enough.
_GPU = _Plan(
    torch.float16,
    working_sets=(256 * MiB, 1024 * MiB, 4096 * MiB),
    row_lengths=(1024, 4096, 16_384),
    matrix_bytes=64 * MiB,
    product=(2048, 8192, 8192),
    models=(_ALMOST_NOTHING,),
)


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
    plan = _CPU if device.type == "cpu" else _GPU
    sets, models = _sets(plan, device), [_random_model(config, plan.dtype, device) for config in plan.models]
    calls: dict[Any, Callable[[], Any]] = {key: _reads(matrices) for key, matrices in sets.items()}
    calls["product"] = _product(plan, device)
    for model in models:
        calls |= {("step", model): decode_step_of(model), ("reading", model): _reads_of(model)}
    rounds = _rounds(calls, device)
    seconds = {name: statistics.median(times) for name, times in rounds.items()}
    readings: dict[str, list[Reading]] = {"numbers": [], "codes": []}
    for kind, size, row in sets:
        readings[kind].append(Reading(size, row, size / seconds[kind, size, row]))
    T, D, F_ = plan.product
    return {
        "readings": readings["numbers"],
        "code_readings": readings["codes"],
        "matmul_flops_per_second": 2 * T * D * F_ / seconds["product"],
        "operations": sorted(
            _operation_cost(model, rounds["step", model], rounds["reading", model]) for model in models
        ),
        "spread": statistics.median(max(times) / min(times) for times in rounds.values()),
    }


def _sets(plan: _Plan, device: torch.device) -> dict[tuple[str, int, int], list[Tensor]]:
    """Matrices of numbers and of codes by kind, bytes together and row length, all from the same memory."""
    most = memory_bytes(device) / 4
    sizes = [size for size in plan.working_sets if size <= most] or [plan.working_sets[0]]
    pool = torch.full((sizes[-1] // plan.dtype.itemsize,), 0.01, dtype=plan.dtype, device=device)
    codes = pool.view(torch.int8)  # which codes they are does not matter
    kinds = [("numbers", pool, size, row) for size in sizes for row in plan.row_lengths]
    kinds += [("codes", codes, size, row) for size in plan.code_sets for row in plan.code_row_lengths]
    return {(kind, size, row): _matrices(block, size, row, plan) for kind, block, size, row in kinds}


def _operation_cost(model: NanoLM, steps: list[float], readings: list[float]) -> OperationCost:
    # What a step takes beyond its products, round by round, since what disturbs one disturbs the other. A GPU reads
    # while it is asked for more, so there all of the step is asking. A tenth of it is the least that is credible.
    is_cpu = model.device.type == "cpu"
    asking = statistics.median(step - is_cpu * reading for step, reading in zip(steps, readings, strict=True))
    size, n_operations = sum(weight.nbytes for weight in weights_read(model)), count_operations(decode_step_of(model))
    return OperationCost(size / n_operations, max(asking, statistics.median(steps) / 10) / n_operations)


def _matrices(pool: Tensor, size: int, row: int, plan: _Plan) -> list[Tensor]:
    """The first `size` bytes of the pool as matrices with rows of this length."""
    numbers = min(size, plan.matrix_bytes) // pool.itemsize
    return [part.view(-1, row) for part in pool[: size // pool.itemsize].split(numbers)]


def _reads(matrices: list[Tensor]) -> Callable[[], None]:
    n_rows, row = matrices[0].shape
    is_codes = matrices[0].dtype == torch.int8
    x = torch.full((1, 1, row), 0.01, dtype=torch.float32 if is_codes else matrices[0].dtype, device=matrices[0].device)
    scales = torch.full((n_rows, 1), 0.01, dtype=torch.bfloat16)  # as layers keep them

    def read() -> None:
        for matrix in matrices:
            quantized_matmul(x, matrix, scales, 8) if is_codes else F.linear(x, matrix)

    return read


def _reads_of(model: NanoLM) -> Callable[[], None]:
    reads = [_reads([weight]) for weight in weights_read(model) if weight.ndim == 2]

    def read() -> None:
        for each in reads:
            each()

    return read


def _product(plan: _Plan, device: torch.device) -> Callable[[], Tensor]:
    T, D, F_ = plan.product
    x, weight = (torch.full(shape, 0.01, dtype=plan.dtype, device=device) for shape in ((T, D), (F_, D)))
    return lambda: F.linear(x, weight)


def _random_model(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> NanoLM:
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers go on as if nothing had been drawn
        return NanoLM(config).eval().to(device, dtype)


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
