"""A decode step on a GPU three ways: operation by operation, with fixed buffers, and the latter as a CUDA graph.

`python -m benchmarks.cuda_graphs` needs an NVIDIA GPU. The three take turns on the shipped target and on random models
in bfloat16, of 150 MB and of 16 GB; the logits of a step must agree before anything is timed. Fixed buffers alone
cost time, for every step reads the whole capacity: what the graph gains comes on top of that.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

import nanolm
from nanolm.machine import weights_read
from nanolm.model import NanoLM, StaticDecoder

from .prediction import EIGHT_BILLION, random_model
from .quantized_decode import LARGE
from .tools import machine, report

BATCH_SIZES = (1, 4, 16)
PROMPT_TOKENS, CAPACITY = 64, 256
# Relative to the largest score: sums are taken in another order, and bfloat16 keeps 8 binary digits of each.
ALLOWED = {torch.float32: 1e-3, torch.bfloat16: 0.1}
NEEDED = """\
There is no CUDA device here, so there is no graph to record. Needed: an NVIDIA GPU and torch's CUDA build; then run
`python -m benchmarks.cuda_graphs`. What a graph would record is tested on a CPU by tests/model/test_cuda_graphs.py."""


class Plain:
    """The step as `generate` takes it."""

    def __init__(self, model: NanoLM) -> None:
        self.model = model

    @torch.inference_mode()
    def prefill(self, prompts: list[list[int]]) -> Tensor:
        """As StaticDecoder.prefill, for prompts of one length."""
        self.cache = self.model.new_cache(len(prompts), CAPACITY)
        logits = self.model(torch.tensor(prompts, device=self.model.device), self.cache, last=1)[:, -1]
        self.cache.advance(len(prompts[0]))
        return logits

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """As StaticDecoder.step."""
        logits = self.model(tokens[:, None], self.cache)[:, -1]
        self.cache.advance(1)
        return logits


def prompts_of(model: NanoLM, batch_size: int) -> list[list[int]]:
    """Return random prompts of one length."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(model.config.vocab_size, (batch_size, PROMPT_TOKENS), generator=generator).tolist()


def largest_difference(one: Any, other: Any, prompts: list[list[int]], n_steps: int) -> float:
    """Return how far two ways' logits are apart over some steps on the same tokens, relative to the largest logit."""
    scores, theirs = one.prefill(prompts), other.prefill(prompts)
    differences = [(scores - theirs).abs().max() / scores.abs().max()]
    for _ in range(n_steps):
        tokens = scores.argmax(-1)
        scores, theirs = one.step(tokens), other.step(tokens)
        differences.append((scores - theirs).abs().max() / scores.abs().max())
    return torch.stack(differences).max().item()  # NaN if any is


def step_seconds(decoder: Any, prompts: list[list[int]], n_steps: int) -> float:
    """Return the seconds of a greedy step, the average of n_steps."""
    tokens = decoder.prefill(prompts).argmax(-1)
    wait()
    start = time.perf_counter()
    for _ in range(n_steps):
        tokens = decoder.step(tokens).argmax(-1)
    wait()
    return (time.perf_counter() - start) / n_steps


def wait() -> None:
    """Wait until the GPU has finished, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def compare(label: str, model: NanoLM, record: bool, n_steps: int, rounds: int) -> list[dict[str, Any]]:
    """Return a row of figures for each batch size."""
    ways = {"plain": Plain(model), "fixed buffers": StaticDecoder(model, BATCH_SIZES, CAPACITY, record=False)}
    if record:
        ways["graph"] = StaticDecoder(model, BATCH_SIZES, CAPACITY)
    rows = []
    for batch_size in BATCH_SIZES:
        prompts = prompts_of(model, batch_size)
        errors = {
            name: largest_difference(ways["plain"], way, prompts, min(8, n_steps))
            for name, way in ways.items()
            if name != "plain"
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                seconds[name].append(step_seconds(way, prompts, n_steps))
        medians = {name: statistics.median(times) for name, times in seconds.items()}
        right = all(error <= ALLOWED[model.dtype] for error in errors.values())
        reading = sum(weight.nbytes for weight in weights_read(model)) / min(medians.values())
        about = {"model": label, "batch_size": batch_size, "errors": errors, "right": right}
        rows.append({**about, "seconds": medians, "weights_bytes_per_second": reading})
    return rows


def models_of(device: str, quick: bool) -> dict[str, Callable[[], NanoLM]]:
    """Return what makes each model, by name."""
    models: dict[str, Callable[[], NanoLM]] = {"target": lambda: nanolm.load("target", device)[0]}
    if not quick:
        models["random, large"] = lambda: random_model(LARGE, device, torch.bfloat16)
        models["random, 8 billion"] = lambda: random_model(EIGHT_BILLION, device, torch.bfloat16)
    return models


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Time a decode step with and without CUDA graphs."""
    if not torch.cuda.is_available():
        print(NEEDED)
        raise typer.Exit(1)
    about = {**machine.describe(), "gpu": torch.cuda.get_device_name()}
    n_steps, rounds, rows = (16, 2, []) if quick else (64, 3, [])
    for label, make in models_of("cuda", quick).items():
        rows += compare(label, make(), True, n_steps, rounds)
    notes = [
        f"{about['gpu']}; host: {machine.one_line(about)}.",
        f"µs a greedy step, medians of {rounds} rounds of {n_steps} steps; all take turns. ×: plain over graph. "
        "GB/s: the weights over the time of the fastest.",
    ]
    head = ["model", "batch", "plain", "fixed buffers", "graph", "×", "GB/s", "difference"]
    cells = []
    for row in rows:
        seconds = row["seconds"]
        micro = [f"{1e6 * seconds[name]:,.0f}" for name in ("plain", "fixed buffers", "graph")]
        gain = f"{seconds['plain'] / seconds['graph']:.2f}" if row["right"] else "WRONG"
        rate, error = f"{row['weights_bytes_per_second'] / 1e9:,.0f}", f"{max(row['errors'].values()):.1e}"
        cells.append([row["model"], str(row["batch_size"]), *micro, gain, rate, error])
    report.show("Decoding with CUDA graphs", notes, head, cells)
    print(report.save("cuda_graphs", {"machine": about, "rows": rows}, results))
    if not all(row["right"] for row in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
