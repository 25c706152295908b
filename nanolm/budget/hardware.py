"""A chip as the numbers that bound inference: what it holds, how fast it reads, how fast it multiplies, its price."""

from dataclasses import dataclass

from .._require import require_positive


@dataclass(frozen=True)
class Hardware:
    """One accelerator, or one computer seen as an accelerator.

    Attributes:
        name: what to print.
        memory_bytes: memory for weights and caches (GB = 10⁹ bytes).
        bandwidth_bytes_per_second: W, the rate at which that memory is read.
        peak_flops_per_second: P, dense 16-bit multiply-adds, each counted as two operations.
        dollars_per_hour: what an hour of it costs; above 0.

    Raises:
        ValueError: a figure that is not a finite number above 0.
    """

    name: str
    memory_bytes: float
    bandwidth_bytes_per_second: float
    peak_flops_per_second: float
    dollars_per_hour: float

    def __post_init__(self) -> None:
        require_positive(
            memory_bytes=self.memory_bytes,
            bandwidth_bytes_per_second=self.bandwidth_bytes_per_second,
            peak_flops_per_second=self.peak_flops_per_second,
            dollars_per_hour=self.dollars_per_hour,
        )


# The SXM versions, from NVIDIA's data sheets: dense rates, half of those printed "with sparsity".
# Prices are round numbers for comparison; real ones vary by a factor of three.
H100 = Hardware("H100", 80e9, 3.35e12, 989e12, 3.0)
A100 = Hardware("A100", 80e9, 2.039e12, 312e12, 2.0)
H200 = Hardware("H200", 141e9, 4.8e12, 989e12, 4.0)
