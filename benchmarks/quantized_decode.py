"""Decoding at batch 1 in 32, 16, 8 and 4 bits: the shipped target, and a random model more than ten times its size.

`python -m benchmarks.quantized_decode` lets every variant write the same number of tokens, in turns. Beside the rate
stands what reading alone would allow, the bytes of weights over the bandwidth at which this machine reads a block of
that size. A small model stays far below it, whatever its bits: its steps are hundreds of small operations.
"""

import copy
import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import nanolm
from nanolm.config import ModelConfig
from nanolm.kernels import products_backend
from nanolm.model import NanoLM, model_bytes, quantize_model
from nanolm.quantization import with_compiled_linear
from nanolm.sampling import SamplingParams

from .tools import machine, report
from .tools.turns import by_rounds

# Wide and shallow: long rows are read fastest, and few layers have few small operations beside the reading.
LARGE = ModelConfig(
    vocab_size=1024, d_model=2048, n_layers=2, n_heads=16, n_kv_heads=4, head_dim=128, d_ff=4096, max_positions=512
)
FLOATS = {"float32, compiled": torch.float32, "bfloat16, compiled": torch.bfloat16}
CODES = {"int8, a scale a row": (8, None), "int4, groups of 32": (4, 32)}  # the head too
VARIANTS = ("float32", *FLOATS, *CODES)
PROMPT_TOKENS = 64
_UNENDING = SamplingParams(temperature=0.0, end_tokens=())


def variants_of(model: NanoLM) -> dict[str, NanoLM]:
    """Return the model and its copies by name: float layers of the compiled product, and quantized ones."""
    floats = {name: with_compiled_linear(copy.deepcopy(model).to(dtype)) for name, dtype in FLOATS.items()}
    codes = {name: quantize_model(copy.deepcopy(model), *bits, head=True) for name, bits in CODES.items()}
    return {"float32": model, **floats, **codes}


def decode_seconds(models: dict[str, NanoLM], n_tokens: int, repetitions: int) -> dict[str, list[float]]:
    """Return, by name and round, the seconds of a token after the first, all taking turns; a first round warms up."""
    vocabulary = next(iter(models.values())).config.vocab_size
    prompt = torch.randint(vocabulary, (PROMPT_TOKENS,), generator=torch.Generator().manual_seed(0)).tolist()

    def seconds_of_a_token(model: NanoLM) -> float:
        stream = model.stream([prompt], n_tokens, _UNENDING)
        next(stream)
        start = time.perf_counter()
        for _ in stream:
            pass
        return (time.perf_counter() - start) / (n_tokens - 1)

    return by_rounds({name: partial(seconds_of_a_token, model) for name, model in models.items()}, repetitions)


def measure(model_name: str, quick: bool) -> dict[str, Any]:
    """Return all figures as one dictionary of plain numbers."""
    about = machine.describe()
    torch.manual_seed(0)
    config = replace(LARGE, n_layers=1, d_model=256, d_ff=512) if quick else LARGE
    large = NanoLM(config).eval().requires_grad_(False)
    n_tokens, repetitions, rows = 8 if quick else 48, 2 if quick else 9, []
    for model_label, model in {model_name: nanolm.load(model_name)[0], "random, large": large}.items():
        models = variants_of(model)
        seconds = decode_seconds(models, n_tokens, repetitions)
        for name, variant in models.items():
            n_bytes = model_bytes(variant)
            rows.append(
                {
                    "model": model_label,
                    "weights": name,
                    "bytes": n_bytes,
                    "tokens_per_second": 1 / statistics.median(seconds[name]),
                    "reading_allows_tokens_per_second": machine.read_bandwidth(n_bytes) / n_bytes,
                    "times_as_fast": statistics.median(
                        f / ours for f, ours in zip(seconds["float32"], seconds[name], strict=True)
                    ),
                }
            )
    setting = {
        "model": model_name,
        "new_tokens": n_tokens,
        "repetitions": repetitions,
        "products": ", ".join(products_backend()),
    }
    return {"machine": about, "setting": setting, "rows": rows}


def notes_of(figures: dict[str, Any]) -> list[str]:
    """Return what stands above the table."""
    setting = figures["setting"]
    return [
        f"{machine.one_line(figures['machine'])}. Products on the CPU: {setting['products']}.",
        f"Tokens a second at batch 1, {setting['new_tokens']} tokens after {PROMPT_TOKENS}. ×: times as fast as "
        f"float32, medians of {setting['repetitions']} rounds in which all take turns. Reading: what reading the "
        "weights alone would allow here, and the share of it that is reached.",
    ]


def rows_of(figures: dict[str, Any]) -> list[list[str]]:
    """Return the table's cells."""
    return [
        [
            f"{row['model']}, {row['weights']}",
            f"{row['bytes'] / 1e6:.1f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['times_as_fast']:.2f}",
            f"{row['reading_allows_tokens_per_second']:,.0f}",
            f"{row['tokens_per_second'] / row['reading_allows_tokens_per_second']:.2f}",
        ]
        for row in figures["rows"]
    ]


def main(
    model: Annotated[str, typer.Option(help="A shipped model, a folder, a GGUF file, or smollm2.")] = "target",
    threads: Annotated[int, typer.Option(help="Threads.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Measure decoding in 32, 8 and 4 bits."""
    torch.set_num_threads(threads)
    figures = measure(model, quick)
    head = ["model, weights", "MB", "tokens/s", "×", "reading", "share"]
    report.show("Decoding in few bits", notes_of(figures), head, rows_of(figures))
    print(report.save("quantized_decode", figures, results))


if __name__ == "__main__":
    typer.run(main)
