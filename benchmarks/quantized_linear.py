"""One linear layer, held in few bits several ways, against float32: times, bytes, and how far the outputs move.

`python -m benchmarks.quantized_linear` takes a matrix larger than the processor's cache, so that at batch 1 its weights
come from memory as a large model's do. All ways take turns, round after round; a ratio is the median over rounds of
float32's time over the way's. torch's own dynamic layers round the activations to 8 bits too.
"""

import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.nn.functional as F
import typer
from torch import Tensor, nn

from nanolm.model import model_bytes
from nanolm.quantization import Int4Linear, QuantizedLinear, plain_matmul

from .tools import machine, report

FLOAT = "float32 F.linear"
BATCHES = (1, 4, 16, 64)
_DYNAMIC_ENGINES = ("fbgemm", "onednn")

Way = Callable[[Tensor], Tensor]


def ways_of(linear: nn.Linear) -> dict[str, tuple[Way, int]]:
    """Return every way by its name: what computes the outputs, and the bytes of weights that it holds."""
    bfloat16 = linear.weight.bfloat16()
    ways: dict[str, tuple[Way, int]] = {
        FLOAT: (linear, linear.weight.nbytes),
        "bfloat16 F.linear": (lambda x: F.linear(x.bfloat16(), bfloat16).float(), bfloat16.nbytes),
    }
    int8, int4 = QuantizedLinear.from_linear(linear, 8), QuantizedLinear.from_linear(linear, 4, 128)
    ways["int8 QuantizedLinear"] = (int8, model_bytes(int8))
    if Int4Linear.takes(int4):
        kernel = Int4Linear(int4)
        ways["int4 g128, kernel"] = (kernel, model_bytes(kernel))
    ways["int8 decoded first"] = (lambda x: plain_matmul(x, int8.codes, int8.scales, 8), model_bytes(int8))
    ways["int4 g128 decoded first"] = (lambda x: plain_matmul(x, int4.codes, int4.scales, 4), model_bytes(int4))
    for engine in _DYNAMIC_ENGINES:
        if engine in torch.backends.quantized.supported_engines:
            ways[f"torch dynamic, {engine}"] = (_dynamic(int8, engine), model_bytes(int8))
    return ways


def _dynamic(layer: QuantizedLinear, engine: str) -> Way:
    zeros = torch.zeros(layer.out_features, dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to move these layers to another package
        torch.backends.quantized.engine = engine
        weight = torch._make_per_channel_quantized_tensor(layer.codes, layer.scales.flatten().double(), zeros, 0)
        packed = torch.ops.quantized.linear_prepack(weight, None)

    def way(x: Tensor) -> Tensor:
        torch.backends.quantized.engine = engine
        return torch.ops.quantized.linear_dynamic(x, packed)

    return way


def race(ways: dict[str, tuple[Way, int]], x: Tensor, repetitions: int) -> dict[str, list[float]]:
    """Return the seconds of every way in rounds in which each has one turn, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(repetitions + 1):
        for name, (way, _) in ways.items():
            start = time.perf_counter()
            way(x)
            if round_number:
                seconds[name].append(time.perf_counter() - start)
    return seconds


@torch.inference_mode()
def measure(rows: int, columns: int, quick: bool) -> dict[str, Any]:
    """Return all figures as one dictionary of plain numbers."""
    about, generator = machine.describe(), torch.Generator().manual_seed(0)
    linear = nn.Linear(columns, rows, bias=False)
    linear.weight.copy_(torch.randn(rows, columns, generator=generator) / columns**0.5)
    ways, batches, repetitions = ways_of(linear), BATCHES[: 2 if quick else None], 2 if quick else 9
    seconds = {}
    for batch in batches:
        seconds[batch] = race(ways, torch.randn(batch, columns, generator=generator), repetitions)
    x = torch.randn(8, columns, generator=generator)
    right = linear(x)
    results = []
    for name, (way, n_bytes) in ways.items():
        row = {"way": name, "bytes": n_bytes, "output_error": ((way(x) - right).norm() / right.norm()).item()}
        row["seconds"] = {str(batch): statistics.median(seconds[batch][name]) for batch in batches}
        row["times_as_fast"] = {
            str(batch): statistics.median(
                f / ours for f, ours in zip(seconds[batch][FLOAT], seconds[batch][name], strict=True)
            )
            for batch in batches
        }
        results.append(row)
    setting = {"rows": rows, "columns": columns, "repetitions": repetitions, "batches": list(batches)}
    return {"machine": about, "setting": setting, "rows": results}


def notes_of(figures: dict[str, Any]) -> list[str]:
    """Return what stands above the table."""
    setting = figures["setting"]
    shape = f"{setting['rows']} × {setting['columns']}, {figures['rows'][0]['bytes'] / 1e6:.0f} MB in float32"
    return [
        f"{machine.one_line(figures['machine'])}.",
        f"A matrix of {shape}. ms: at batch 1. ×: times as fast as float32 at batch 1, 4 and so on, medians of "
        f"{setting['repetitions']} rounds in which all take turns. Error: ‖y - y₃₂‖ / ‖y₃₂‖.",
    ]


def rows_of(figures: dict[str, Any]) -> list[list[str]]:
    """Return the table's cells."""
    return [
        [
            row["way"],
            f"{row['bytes'] / 1e6:.0f}",
            f"{1e3 * row['seconds']['1']:.2f}",
            *[f"{ratio:.2f}" for ratio in row["times_as_fast"].values()],
            f"{row['output_error']:.1%}",
        ]
        for row in figures["rows"]
    ]


def main(
    rows: Annotated[int, typer.Option(help="Outputs of the layer.")] = 8192,
    columns: Annotated[int, typer.Option(help="Inputs of the layer, a multiple of 128.")] = 8192,
    threads: Annotated[int, typer.Option(help="Threads.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Measure a linear layer in 32, 16, 8 and 4 bits."""
    torch.set_num_threads(threads)
    figures = measure(rows, columns, quick)
    batches = [f"×, {batch}" for batch in figures["setting"]["batches"]]
    head = ["weights", "MB", "ms, 1", *batches, "error"]
    report.show("A linear layer in few bits", notes_of(figures), head, rows_of(figures))
    print(report.save("quantized_linear", figures, results))


if __name__ == "__main__":
    typer.run(main)
