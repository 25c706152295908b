"""Tokens a second at batch 1, predicted from a few seconds' measurement of this machine, then measured.

`python -m benchmarks.prediction` measures the machine (`calibrate`), predicts for each model and kind of weights, and
lets all of them run in turns. `--device cuda` does the same on a GPU, in float16, with a model of 16 GB besides.
"""

import copy
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import nanolm
from course.lab.timing import take_turns
from nanolm.config import ModelConfig
from nanolm.machine import calibrate, count_operations, decode_step_of, predicted_decode_seconds
from nanolm.model import NanoLM, model_bytes, quantize_model
from nanolm.quantization import with_compiled_linear

from .quantized_decode import LARGE, PROMPT_TOKENS
from .tools import machine, report

# An 8-billion Llama's shape: for a GPU, whose cache alone would hold the others.
EIGHT_BILLION = ModelConfig(
    vocab_size=128_256, d_model=4096, n_layers=32, n_heads=32, n_kv_heads=8, head_dim=128, d_ff=14_336,
    max_positions=512,
)  # fmt: skip


@torch.inference_mode()
def random_model(config: ModelConfig, device: str, dtype: torch.dtype) -> NanoLM:
    """Return a model of random weights, made where it is to be."""
    with torch.device("meta"):
        model = NanoLM(config)
    model = model.to(dtype).to_empty(device=device)
    for weight in model.parameters():
        weight.normal_(std=weight.shape[-1] ** -0.5)
    return model.eval().requires_grad_(False)


def models_of(device: str, quick: bool) -> dict[str, NanoLM]:
    """Return the models by name and dtype."""
    dtype = torch.float32 if device == "cpu" else torch.float16
    config = replace(LARGE, n_layers=1, d_model=256, d_ff=512) if quick else LARGE
    plain = {
        "target": nanolm.load("target", device, dtype)[0],
        "random, large": random_model(config, device, dtype),
    }
    if device != "cpu":
        if not quick:
            plain["random, 8 billion"] = random_model(EIGHT_BILLION, device, dtype)
        return {f"{name}, float16": model for name, model in plain.items()}
    models = {}
    for name, model in plain.items():
        models[f"{name}, float32"] = with_compiled_linear(model)
        models[f"{name}, bfloat16"] = with_compiled_linear(copy.deepcopy(model).to(torch.bfloat16))
        models |= {
            f"{name}, int{bits}": quantize_model(copy.deepcopy(model), bits, g) for bits, g in ((8, None), (4, 32))
        }
    return models


def pass_seconds(models: dict[str, NanoLM], n_passes: int, repetitions: int) -> dict[str, list[float]]:
    """Return, by name and round, the seconds of a decode pass: the choice of a token is no part of it."""
    calls = {name: _passes(model, n_passes) for name, model in models.items()}
    return {name: [each / n_passes for each in times] for name, times in take_turns(calls, repetitions).items()}


def _passes(model: NanoLM, n: int) -> Callable[[], None]:
    token = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    past = token.expand(1, PROMPT_TOKENS)

    @torch.inference_mode()
    def run() -> None:
        for _ in range(n):
            model(token, cache)
            cache.advance(1)
        cache.truncate(PROMPT_TOKENS)
        if model.device.type != "cpu":
            torch.accelerator.synchronize(model.device)

    cache = model.new_cache(capacity=PROMPT_TOKENS + n)
    with torch.inference_mode():
        model(past, cache, last=1)
    cache.advance(PROMPT_TOKENS)
    return run


def measure(device: str, quick: bool) -> dict[str, Any]:
    """Return all figures as one dictionary of plain numbers."""
    measurement, models = calibrate(device, refresh=not quick), models_of(device, quick)
    # The cache of the shipped model and of its like is a thousandth of the weights: nothing to predict with.
    predicted = {name: 1 / predicted_decode_seconds(measurement, model) for name, model in models.items()}
    n_passes, repetitions = (8, 2) if quick else (48, 9)
    seconds = pass_seconds(models, n_passes, repetitions)
    rows = []
    for name, model in models.items():
        written = 1 / statistics.median(seconds[name])
        rows.append(
            {
                "model": name,
                "bytes": model_bytes(model),
                "operations": count_operations(decode_step_of(model)),
                "predicted_tokens_per_second": predicted[name],
                "tokens_per_second": written,
                "ratio": written / predicted[name],
            }
        )
    about = {**machine.describe(), "device": measurement.processor}
    setting = {"passes": n_passes, "repetitions": repetitions, "spread": measurement.spread}
    return {"machine": about, "setting": setting, "rows": rows}


def main(
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    threads: Annotated[int, typer.Option(help="Threads.")] = 2,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Predict how fast this machine decodes, then measure it."""
    torch.set_num_threads(threads)
    figures = measure(device, quick)
    notes = [
        f"{figures['machine']['device']}; host: {machine.one_line(figures['machine'])}.",
        f"Tokens a second at batch 1, {figures['setting']['passes']} passes after {PROMPT_TOKENS} tokens, medians of "
        f"{figures['setting']['repetitions']} rounds in which all take turns; reading and operations add up on a CPU, "
        "on a GPU the longer of the two counts.",
    ]
    head = ["model", "MB", "ops", "predicted", "measured", "ratio"]
    cells = [
        [
            row["model"],
            f"{row['bytes'] / 1e6:,.1f}",
            str(row["operations"]),
            f"{row['predicted_tokens_per_second']:,.0f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['ratio']:.2f}",
        ]
        for row in figures["rows"]
    ]
    report.show("Predicted and measured", notes, head, cells)
    print(report.save(f"prediction_{device.split(':')[0]}", figures, results))


if __name__ == "__main__":
    typer.run(main)
