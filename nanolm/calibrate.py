"""Measure this machine as a decoder uses it: how fast it reads weights and multiplies, and what an operation costs.

The loads are the engine's own. Decoding multiplies every matrix by one vector, so reading is timed as such products,
over sets of matrices that fit a processor's cache and sets that do not. A small model waits for neither reading nor
arithmetic but for hundreds of small operations, so these are timed too. It takes a second or two, once: the result is
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
from torch.utils._python_dispatch import TorchDispatchMode

from ._require import require_not_negative
from .config import ModelConfig
from .measurement import Measurement, Reading, cache_folder, main_memory_bytes, processor_name
from .model import NanoLM
from .roofline import decode_seconds_per_token

MiB = 2**20
_ROUNDS = 5
_LEAST_SECONDS = 2e-3  # of one timing: shorter ones are repeated, so that the clock's own cost does not count
_ALMOST_NOTHING = ModelConfig(
    vocab_size=32, d_model=32, n_layers=4, n_heads=2, n_kv_heads=1, head_dim=16, d_ff=32, max_positions=64
)


@dataclass(frozen=True)
class _Plan:
    """What to time on a kind of device: sizes in bytes, and the prefill-like product (T, D) × (D, F)."""

    dtype: torch.dtype
    working_sets: tuple[int, ...]
    row_lengths: tuple[int, ...]
    matrix_bytes: int
    product: tuple[int, int, int]


_CPU = _Plan(torch.float32, (4 * MiB, 16 * MiB, 64 * MiB, 256 * MiB), (256, 1024, 4096), 4 * MiB, (256, 1024, 4096))
# A GPU has caches of up to 50 MB, and a small matrix is over before the next operation has been asked for.
_GPU = _Plan(torch.float16, (256 * MiB, 1024 * MiB, 4096 * MiB), (1024, 4096, 16384), 64 * MiB, (2048, 8192, 8192))


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
    where = _device(device)
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


def predicted_decode_seconds(measurement: Measurement, model: NanoLM, kv_bytes: float = 0) -> float:
    """Return how long one decode pass of a single sequence should take on the machine measured.

    Every matrix is read at the rate of its row length in a working set of all weights, and every operation costs its
    own time on top. A GPU is asked for the next operations while it reads, so there the longer of the two counts.
    Choosing a token from the scores is no part of the pass.

    Args:
        measurement: of the device that the model is on. A CPU is measured in float32 and a GPU in float16.
        model: is run for one pass, in which its operations are counted.
        kv_bytes: bytes of cache that the pass reads.

    Raises:
        ValueError: kv_bytes below 0.
    """
    require_not_negative(kv_bytes=kv_bytes)
    weights = weights_read(model)
    size = sum(weight.nbytes for weight in weights) + kv_bytes
    reading = kv_bytes / measurement.bandwidth_at(size)
    for weight in weights:
        chip = measurement.hardware(size, weight.shape[-1])
        reading += decode_seconds_per_token(weight.numel(), weight.nbytes, chip)
    asking = count_operations(_step_of(model)) * measurement.operation_seconds
    return reading + asking if measurement.device == "cpu" else max(reading, asking)


def weights_read(model: NanoLM) -> list[Tensor]:
    """Return the parameters and buffers that a pass reads whole: all, except an embedding that is no head as well."""
    head = getattr(model.head, "weight", None)
    looked_up = None if head is model.embedding.weight else model.embedding.weight
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return [tensor for tensor in tensors.values() if tensor is not looked_up and tensor.numel() and tensor.ndim]


def count_operations(call: Callable[[], Any]) -> int:
    """Return how many operations torch carries out in a call, without views, which touch no number."""
    counter = _Counter()
    with torch.inference_mode(), counter:
        call()
    return counter.count


def memory_bytes(device: torch.device) -> float:
    """Return the bytes of memory that a device has for weights and caches; for a CPU, all of the computer's.

    Raises:
        OSError: the system does not tell.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return torch.mps.recommended_max_memory() if device.type == "mps" else main_memory_bytes()


class _Counter(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def _device(name: str) -> torch.device:
    cuda = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    there = ["cpu", *(["cuda", *cuda] if cuda else []), *(["mps"] if torch.backends.mps.is_available() else [])]
    if name not in there:
        raise ValueError(f"device is {name!r}; this machine has {', '.join(there)}")
    return torch.device(name)


@torch.inference_mode()
def _measure(device: torch.device) -> dict[str, Any]:
    """The measured fields of a Measurement: medians over rounds in which everything has its turn."""
    plan = _CPU if device.type == "cpu" else _GPU
    most = memory_bytes(device) / 4
    sizes = [size for size in plan.working_sets if size <= most] or [plan.working_sets[0]]
    pool = torch.full((sizes[-1] // plan.dtype.itemsize,), 0.01, dtype=plan.dtype, device=device)
    sets = {(size, row): _matrices(pool, plan, size, row) for size in sizes for row in plan.row_lengths}
    calls: dict[Any, Callable[[], Any]] = {key: _reads(matrices) for key, matrices in sets.items()}
    calls["product"] = _product(plan, device)
    calls["step"] = step = _step_of(_small_model(plan.dtype, device))
    rounds = _rounds(calls, device)
    seconds = {name: statistics.median(times) for name, times in rounds.items()}
    T, D, F_ = plan.product
    return {
        "readings": tuple(Reading(*key, _bytes(matrices) / seconds[key]) for key, matrices in sets.items()),
        "matmul_flops_per_second": 2 * T * D * F_ / seconds["product"],
        "operation_seconds": seconds["step"] / count_operations(step),
        "spread": statistics.median(max(times) / min(times) for times in rounds.values()),
    }


def _matrices(pool: Tensor, plan: _Plan, size: int, row: int) -> list[Tensor]:
    """The first `size` bytes of the pool as matrices with rows of this length."""
    numbers = min(size, plan.matrix_bytes) // plan.dtype.itemsize
    return [part.view(-1, row) for part in pool[: size // plan.dtype.itemsize].split(numbers)]


def _bytes(matrices: list[Tensor]) -> int:
    return sum(matrix.nbytes for matrix in matrices)


def _reads(matrices: list[Tensor]) -> Callable[[], None]:
    x = torch.full((1, 1, matrices[0].shape[1]), 0.01, dtype=matrices[0].dtype, device=matrices[0].device)

    def read() -> None:
        for matrix in matrices:
            F.linear(x, matrix)

    return read


def _product(plan: _Plan, device: torch.device) -> Callable[[], Tensor]:
    T, D, F_ = plan.product
    x, weight = (torch.full(shape, 0.01, dtype=plan.dtype, device=device) for shape in ((T, D), (F_, D)))
    return lambda: F.linear(x, weight)


def _small_model(dtype: torch.dtype, device: torch.device) -> NanoLM:
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers go on as if nothing had been drawn
        return NanoLM(_ALMOST_NOTHING).eval().to(device, dtype)


def _step_of(model: NanoLM) -> Callable[[], Tensor]:
    """One decode pass after a short past, repeatable, since the cache is not advanced."""
    token, past = (torch.zeros(1, n, dtype=torch.long, device=model.device) for n in (1, 8))
    cache = model.new_cache(capacity=16)
    with torch.inference_mode():
        model(past, cache, last=1)
    cache.advance(8)
    return torch.inference_mode()(lambda: model(token, cache))


def _rounds(calls: dict[Any, Callable[[], Any]], device: torch.device) -> dict[Any, list[float]]:
    """The seconds of each call in every round."""
    seconds: dict[Any, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            # The turn before has pushed these data out of the cache: the first run brings back what fits.
            repeats = math.ceil(_LEAST_SECONDS / max(_seconds(call, 1, device), 1e-9))
            seconds[name].append(_seconds(call, repeats, device) / repeats)
    return seconds


def _seconds(call: Callable[[], Any], repeats: int, device: torch.device) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter() - start
