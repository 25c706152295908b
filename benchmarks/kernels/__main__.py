"""The kernels of nanolm/kernels on a GPU: are they right, and how fast beside torch, a copy and a plain product?

`python -m benchmarks.kernels` needs an NVIDIA GPU and triton. Every kernel is compared with float64 first, in memory
that is poisoned around the inputs; then all ways of computing a case take turns, and a time is the median of its turns,
each after a write that has emptied the chip's cache, and after a pause in which the host gets ahead: it is the GPU's
own time. What the host needs to start the kernel is told beside it. `--interpret` does the comparisons alone, on a CPU.
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from ..tools import machine, report
from .cases import Case, Maker, to_check, to_time

# Of the largest result: float32 sums of thousands of terms; 11 and 8 binary digits, lost a few times.
ALLOWED = {torch.float32: 1e-5, torch.float16: 2.0**-8, torch.bfloat16: 2.0**-5}
CACHE_BYTES = 256 << 20  # more than any GPU keeps on the chip
PAUSE_CYCLES = 2_000_000  # about a millisecond
TORCH_PATH_ROUNDS = 3  # its loops take up to a thousand times as long: no need to see it often
NEEDED = """\
There is no CUDA device here, and times on anything else would say nothing. Needed: Linux, an NVIDIA GPU of compute
capability 8.0 or more with 24 GB, torch's CUDA build (triton comes with it); then run `python -m benchmarks.kernels`.
`python -m benchmarks.kernels --interpret` checks the kernels' results on a CPU."""


def short(dtype: torch.dtype) -> str:
    """Return "float16" for torch.float16."""
    return str(dtype).removeprefix("torch.")


@torch.inference_mode()
def check(case: Case) -> dict[str, Any]:
    """Return how far the kernel is from float64, relative to the largest number of the result."""
    result, exact = case.run("triton").double(), case.exact()
    error = ((result - exact).abs().max() / exact.abs().max()).item()  # NaN where it has read poison
    right = error <= ALLOWED[case.dtype] and case.inputs_untouched()
    allowed = ALLOWED[case.dtype]
    about = {"kernel": case.kernel, "numbers": case.numbers, "dtype": short(case.dtype)}
    return {**about, "error": error, "allowed": allowed, "right": right}


@torch.inference_mode()
def turns(ways: dict[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median milliseconds of every way on the GPU and on the host, after two rounds that do not count.

    The ways take turns.
    """
    cache = torch.empty(CACHE_BYTES, dtype=torch.int8, device="cuda")
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in ways}
    host: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(rounds + 2):
        for name, way in ways.items():
            if name == "torch_path" and round_number >= TORCH_PATH_ROUNDS + 2:
                continue
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            cache.zero_()
            torch.cuda._sleep(PAUSE_CYCLES)
            start.record()
            asked = time.perf_counter()
            way()
            host[name].append(1e3 * (time.perf_counter() - asked))
            end.record()
            events[name].append((start, end))
            torch.cuda.synchronize()
    gpu = {name: statistics.median(a.elapsed_time(b) for a, b in pairs[2:]) for name, pairs in events.items()}
    return gpu, {name: statistics.median(times[2:]) for name, times in host.items()}


def time_case(case: Case, rounds: int) -> dict[str, Any]:
    """Return the milliseconds of the kernel and of all that it is compared with."""
    # A copy of half the bytes reads them and writes as many; a square product with as many operations.
    source = torch.zeros(case.n_bytes // 2, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    side = max(64, round((case.n_operations / 2) ** (1 / 3) / 64) * 64)
    a, b = torch.ones(2, side, side, dtype=case.dtype, device="cuda")
    (library_name, library), *_ = case.library.items()
    ways = {
        "kernel": lambda: case.run("triton"),
        "torch_path": lambda: case.run("torch"),
        "library": library,
        "copy": lambda: target.copy_(source),
        "matmul": lambda: a @ b,
    }
    milliseconds, host = turns(ways, rounds)
    return {
        "library": library_name,
        "n_bytes": case.n_bytes,
        "n_operations": case.n_operations,
        "milliseconds": milliseconds,
        "host_milliseconds": host,
        "bytes_per_second": 1e3 * case.n_bytes / milliseconds["kernel"],
        "operations_per_second": 1e3 * case.n_operations / milliseconds["kernel"],
    }


def check_all(device: str, dtypes: list[torch.dtype]) -> list[dict[str, Any]]:
    """Return the comparisons of all small cases."""
    return [check(case) for dtype in dtypes for case in to_check(Maker(device, dtype, poisoned=True))]


def show_checks(checks: list[dict[str, Any]], notes: list[str]) -> None:
    """Print the comparisons."""
    head = ["kernel", "numbers", "type", "error", "allowed", ""]
    rows = []
    for row in checks:
        verdict = "" if row["right"] else "WRONG"
        rows.append(
            [row["kernel"], row["numbers"], row["dtype"], f"{row['error']:.1e}", f"{row['allowed']:.1e}", verdict]
        )
    report.show("The kernels against float64", notes, head, rows)


def measure(quick: bool) -> dict[str, Any]:
    """Return all figures of a GPU as one dictionary of plain numbers."""
    import triton

    gpu = torch.cuda.get_device_properties(0)
    about = {
        **machine.describe(),
        "gpu": gpu.name,
        "capability": f"{gpu.major}.{gpu.minor}",
        "gpu_bytes": gpu.total_memory,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
    }
    rounds, rows = 3 if quick else 25, []
    for case in to_time(Maker("cuda", torch.bfloat16, poisoned=False), quick):
        row = check(case)
        rows.append({**row, **time_case(case, rounds)} if row["right"] else row)
    checks = check_all("cuda", list(ALLOWED))
    return {"machine": about, "setting": {"rounds": rounds, "quick": quick}, "checks": checks, "rows": rows}


def rows_of(figures: dict[str, Any]) -> list[list[str]]:
    """Return the table's cells; × is how many times as fast the kernel is as the other."""
    rows = []
    for row in figures["rows"]:
        cells = [row["kernel"], row["numbers"]]
        if not row["right"]:
            rows.append([*cells, "WRONG", *[""] * 7])
            continue
        ms = row["milliseconds"]
        ratios = [ms[name] / ms["kernel"] for name in ("torch_path", "library", "copy", "matmul")]
        rates = [f"{row['bytes_per_second'] / 1e9:,.0f}", f"{row['operations_per_second'] / 1e12:.1f}"]
        host = f"{1e3 * row['host_milliseconds']['kernel']:.0f}"
        rows.append([*cells, f"{1e3 * ms['kernel']:,.0f}", host, *rates, *[f"{ratio:.2f}" for ratio in ratios]])
    return rows


def notes_of(figures: dict[str, Any]) -> list[str]:
    """Return what stands above the table."""
    about = figures["machine"]
    return [
        f"{about['gpu']}, compute capability {about['capability']}, CUDA {about['cuda']}, triton {about['triton']}, "
        f"torch {about['torch']}; host: {machine.one_line(about)}.",
        f"bfloat16, medians of {figures['setting']['rounds']} rounds in which all take turns. Attention: 32 query, 8 "
        "key heads of 128, T/S positions, or rows×length in blocks of 16. Products: rows×in×out/codes a scale; "
        "E experts, 2048 to 1408.",
        "µs: the GPU's own time; host: what it takes to start the kernel, hidden while the GPU has other work. "
        "×: how many times as fast the kernel is as torch's path of the same signature; as the library on data laid "
        "out for it (SDPA; F.linear with weights not packed; with one expert for all rows); as a copy that moves as "
        "many bytes; as a square product of as many operations.",
    ]


def main(
    interpret: Annotated[bool, typer.Option("--interpret", help="Check the results on a CPU; no times.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small and few, to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Check the Triton kernels against float64 and time them on a GPU."""
    if interpret:
        os.environ["TRITON_INTERPRET"] = "1"  # before anything imports triton
        # Not bfloat16: the interpreter multiplies it wrongly.
        checks = check_all("cpu", [torch.float32, torch.float16])
        show_checks(checks, ["Under Triton's interpreter, on a CPU: results, no times."])
        print(report.save("kernels_interpreted", {"machine": machine.describe(), "checks": checks}, results))
    elif not torch.cuda.is_available():
        print(NEEDED)
        raise typer.Exit(1)
    else:
        figures = measure(quick)
        checks = figures["checks"] + figures["rows"]
        show_checks(checks, [])
        head = ["kernel", "numbers", "µs", "host", "GB/s", "TF/s", "× torch", "library", "copy", "matmul"]
        report.show("Kernels", notes_of(figures), head, rows_of(figures))
        print(report.save("kernels", figures, results))
    if not all(row["right"] for row in checks):
        print("A kernel is WRONG: see above.")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
