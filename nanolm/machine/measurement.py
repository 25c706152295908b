"""What was measured of one machine, and the file it is kept in. How it is measured is in `calibration`."""

import ctypes
import json
import math
import os
import platform
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from .._files import user_cache_folder, write_text
from .._require import require_count, require_positive
from ..budget.hardware import Hardware


class Reading(NamedTuple):
    """The rate at which a set of matrices is read, over and over, by products with one vector."""

    working_set_bytes: int
    row_length: int
    bytes_per_second: float


class OperationCost(NamedTuple):
    """What one operation of a decode step costs beyond the reading of weights, where so many bytes go with each."""

    bytes_per_operation: float
    seconds: float


@dataclass(frozen=True)
class Measurement:
    """How fast one machine does what a decoder asks of it.

    Attributes:
        machine, processor, device, threads, torch: what was measured, and with what.
        date: when, ISO 8601.
        memory_bytes: memory of the device.
        readings: read rates by size of all matrices together and by length of their rows: a full grid, in order.
            The size decides which of the processor's caches helps; short rows are read more slowly.
        packed_readings: the same by what the matrices hold, "bfloat16", "int8" or "int4" (codes with a scale for 32),
            which must be made numbers on the way; sizes are of what is kept, scales apart. None of a kind: unknown.
        matmul_flops_per_second: rate of a product as large as prefill makes them.
        operations: cost of an operation by bytes of weights for each operation of a step, ascending. A step is hundreds
            of operations, most with next to nothing to do; the more weights pass through the processor's caches from
            one to the next, the less of the program is still there.
        packed_operations: the same in models whose weights are of a kind of `packed_readings`: other products are asked
            for, and other operations stand between them. None of a kind: unknown.
        spread: how many times longer than the fastest the slowest round took, the median of all that was timed. Near 1
            the machine was quiet; from 1.5 on something else ran on it (`is_steady`), and the figures are too low.
    """

    machine: str
    processor: str
    device: str
    threads: int
    torch: str
    date: str
    memory_bytes: float
    readings: tuple[Reading, ...]
    matmul_flops_per_second: float
    operations: tuple[OperationCost, ...]
    spread: float
    packed_readings: dict[str, tuple[Reading, ...]] = field(default_factory=dict)
    packed_operations: dict[str, tuple[OperationCost, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in (("readings", Reading), ("operations", OperationCost)):  # JSON has lists
            object.__setattr__(self, name, tuple(kind(*row) for row in getattr(self, name)))
            packed = {key: tuple(kind(*row) for row in rows) for key, rows in getattr(self, f"packed_{name}").items()}
            object.__setattr__(self, f"packed_{name}", packed)
        every_reading = (self.readings, *self.packed_readings.values())
        every_cost = (self.operations, *self.packed_operations.values())
        require_positive(
            memory_bytes=self.memory_bytes, matmul_flops_per_second=self.matmul_flops_per_second, spread=self.spread
        )
        require_count(1, threads=self.threads)
        for measured in chain.from_iterable((*every_reading, *every_cost)):
            require_positive(**measured._asdict())
        for readings in every_reading:
            grid = [(size, row) for size in _column(readings, 0) for row in _column(readings, 1)]
            if not readings or [reading[:2] for reading in readings] != grid:
                raise ValueError("readings must hold one rate for each working set and row length, in ascending order")
        if not all(costs and list(costs) == sorted(costs) for costs in every_cost):
            raise ValueError("one cost of an operation or more is needed, in ascending order")

    @property
    def is_steady(self) -> bool:
        """Whether the rounds agreed well enough to trust the figures."""
        return self.spread < 1.5

    @property
    def working_sets(self) -> list[int]:
        """The sizes measured, in bytes, ascending."""
        return _column(self.readings, 0)

    @property
    def row_lengths(self) -> list[int]:
        """The row lengths measured, in numbers, ascending."""
        return _column(self.readings, 1)

    def bandwidth_at(self, working_set_bytes: float, row_length: int = 1024) -> float:
        """Return the bytes a second at which matrices of `working_set_bytes` together, with such rows, are read.

        Between measured sizes and lengths the rate is interpolated along their logarithms; beyond them it is that of
        the nearest.

        Raises:
            ValueError: an argument not above 0.
        """
        return read_rate(self.readings, working_set_bytes, row_length)

    def operation_seconds_at(self, bytes_per_operation: float, kind: str = "") -> float:
        """Return what an operation costs where so many bytes of weights go with each, interpolated like a bandwidth.

        Args:
            kind: of the weights, one of `packed_operations`; any other: plain numbers.

        Raises:
            ValueError: bytes_per_operation not above 0.
        """
        require_positive(bytes_per_operation=bytes_per_operation)
        places, seconds = zip(*self.packed_operations.get(kind, self.operations), strict=True)
        return _between(places, seconds, bytes_per_operation)

    def hardware(
        self, working_set_bytes: float | None = None, row_length: int = 1024, dollars_per_hour: float = 0.02
    ) -> Hardware:
        """Return the machine as a chip to size models for.

        Args:
            working_set_bytes, row_length: whose read rate to use, as for `bandwidth_at`. None means the largest set
                measured, which no cache holds. A small model stays in the cache: give the bytes of its weights.
            dollars_per_hour: what an hour costs; 0.02 is the current for about 65 W.

        Raises:
            ValueError: an argument not above 0.
        """
        size = self.working_sets[-1] if working_set_bytes is None else working_set_bytes
        return Hardware(
            name=self.processor,
            memory_bytes=self.memory_bytes,
            bandwidth_bytes_per_second=self.bandwidth_at(size, row_length),
            peak_flops_per_second=self.matmul_flops_per_second,
            dollars_per_hour=dollars_per_hour,
        )

    def save(self, path: Path) -> None:
        """Write it as JSON; whoever reads the file meanwhile sees the old one or the new one, never a part.

        Raises:
            OSError: the file cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Measurement | None":
        """Return what the file holds; None if there is none, or if it is not a whole measurement."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            if set(stored) != {each.name for each in fields(cls)}:
                return None
            return cls(**stored)
        except (OSError, ValueError, TypeError, AttributeError):
            return None


def read_rate(readings: Sequence[Reading], working_set_bytes: float, row_length: int) -> float:
    """Return the rate that a full grid of readings gives for a size and a row length; see `bandwidth_at`."""
    require_positive(working_set_bytes=working_set_bytes, row_length=row_length)
    by_size: dict[int, dict[int, float]] = {}
    for size, row, rate in readings:
        by_size.setdefault(size, {})[row] = rate
    rates = [_between(list(rows), list(rows.values()), row_length) for rows in by_size.values()]
    return _between(list(by_size), rates, working_set_bytes)


def cache_folder() -> Path:
    """Return the folder for what this user's programs can make anew, as each system has it."""
    return user_cache_folder()


def main_memory_bytes() -> int:
    """Return the bytes of the computer's main memory.

    Raises:
        OSError: the system does not tell.
    """
    if os.name != "nt":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    status = _WindowsMemory(length=ctypes.sizeof(_WindowsMemory))
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise OSError("Windows does not tell how much memory there is")
    return status.total


class _WindowsMemory(ctypes.Structure):
    """MEMORYSTATUSEX of the Windows API, as far as it is read."""

    _fields_ = (
        ("length", ctypes.c_ulong),
        ("load", ctypes.c_ulong),
        ("total", ctypes.c_ulonglong),
        ("rest", ctypes.c_ulonglong * 6),
    )


def processor_name() -> str:
    """Return the processor's name as its maker writes it, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine() or "unknown processor"


def _column(readings: Sequence[Reading], index: int) -> list:
    """The different values in one column, ascending."""
    return sorted({reading[index] for reading in readings})


def _between(places: Sequence[float], values: Sequence[float], place: float) -> float:
    """The value at a place between those given, along a straight line over the logarithms of the places."""
    above = bisect_left(places, place)
    if above == 0 or above == len(places):
        return values[0] if above == 0 else values[-1]
    low, high = places[above - 1], places[above]
    share = math.log(place / low) / math.log(high / low)
    return values[above - 1] + share * (values[above] - values[above - 1])
