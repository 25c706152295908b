"""A chip as the numbers that bound inference: what it holds, how fast it reads, how fast it multiplies, its price."""

from dataclasses import dataclass

from ._require import require_positive


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

    @classmethod
    def measure(cls, device: str = "cpu", refresh: bool = False) -> "Hardware":
        """Return this machine, measured as a decoder uses it; takes a few seconds once, and is then kept on disk.

        The bandwidth is that of weights too large for any cache, and P on a CPU is the rate in float32. Its price is
        what the current for it costs, roughly. `calibrate.calibrate` returns all that was measured, such as the
        bandwidth of weights that do stay in the cache.

        Args:
            device: "cpu", "cuda", "cuda:1", … or "mps".
            refresh: measure again; what else runs on a machine at that moment lowers its figures.

        Raises:
            ValueError: this machine has no such device.
        """
        from .calibrate import calibrate  # it needs torch, which the arithmetic does without

        return calibrate(device, refresh).hardware()


# The SXM versions, from NVIDIA's data sheets: dense rates, half of those printed "with sparsity".
# Prices are round numbers for comparison; real ones vary by a factor of three.
H100 = Hardware("H100", 80e9, 3.35e12, 989e12, 3.0)
A100 = Hardware("A100", 80e9, 2.039e12, 312e12, 2.0)
H200 = Hardware("H200", 141e9, 4.8e12, 989e12, 4.0)
