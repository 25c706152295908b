"""NanoLM against transformers' `generate`: the same weights, batch 1, in one process, taking turns.

`python -m benchmarks.decode` counts bytes and operations of a decode step first and says what the machine could do at
best; then it measures both. A figure is the median of its repetitions.
"""

import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import nanolm
from course.lab.timing import take_turns
from nanolm.budget import ModelShape, kv_cache_bytes
from nanolm.checkpoint import find_folder
from nanolm.machine import count_operations
from nanolm.model import NanoLM
from nanolm.sampling import SamplingParams

from .tools import machine, report
from .tools.turns import by_rounds

PROMPT_TOKENS = 32
PREFILL_LENGTHS = (32, 128, 512, 1024)
_UNENDING = SamplingParams(temperature=0.0, end_tokens=())


def count(model: NanoLM, folder: Path, n_cached: int) -> dict[str, float]:
    """Return bytes read, multiplications and additions, and torch operations of one step with `n_cached` positions."""
    shape, size = ModelShape.from_config(folder), model.embedding.weight.element_size()
    cache = model.new_cache(capacity=n_cached + 1)
    with torch.inference_mode():
        model(torch.zeros(1, n_cached, dtype=torch.long), cache, last=1)
        cache.advance(n_cached)
        n_operations = count_operations(lambda: model(torch.zeros(1, 1, dtype=torch.long), cache))
    return {
        "weight_bytes": shape.n_multiplied_params * size,
        "cache_bytes": kv_cache_bytes(shape, n_cached, kv_bits=8 * size),
        # A key and a value of every cached position are multiplied too, once for each query head.
        "flops": 2 * shape.n_multiplied_params + 4 * shape.n_layers * shape.n_heads * shape.head_dim * n_cached,
        "torch_operations": n_operations,
    }


def predict(counted: dict[str, float]) -> dict[str, float]:
    """Return the least seconds of a step: by reading, by arithmetic, and by the number of torch operations."""
    n_bytes = counted["weight_bytes"] + counted["cache_bytes"]
    bandwidth, rate = machine.read_bandwidth(int(n_bytes)), machine.multiply_rate()
    operation = machine.smallest_operation_seconds()
    return {
        "bandwidth_bytes_per_second": bandwidth,
        "flops_per_second": rate,
        "operation_seconds": operation,
        "reading_seconds": n_bytes / bandwidth,
        "arithmetic_seconds": counted["flops"] / rate,
        "operations_seconds": counted["torch_operations"] * operation,
    }


def decode_seconds(ours: NanoLM, theirs: Any, n_tokens: int, repetitions: int) -> dict[str, Any]:
    """Return, for both, the seconds of a token after the first, by round, and whether they wrote the same text."""
    prompt = torch.randint(ours.config.vocab_size, (PROMPT_TOKENS,), generator=torch.Generator().manual_seed(0))
    theirs.generation_config.eos_token_id = None  # neither may stop early
    ways = {
        "nanolm": lambda: written(step[0] for step in ours.stream([prompt.tolist()], n_tokens, _UNENDING)),
        "transformers": lambda: written_by_transformers(theirs, prompt, n_tokens),
    }
    found = by_rounds(ways, repetitions)
    seconds = {name: [(times[-1] - times[0]) / (n_tokens - 1) for _, times in runs] for name, runs in found.items()}
    texts = [runs[-1][0] for runs in found.values()]
    return {**seconds, "same_text": texts[0] == texts[1]}


def written(tokens: Iterable[int]) -> tuple[list[int], list[float]]:
    """Return the tokens of a stream, and when each arrived."""
    arrived = [(token, time.perf_counter()) for token in tokens]
    return [token for token, _ in arrived], [at for _, at in arrived]


def written_by_transformers(model: Any, prompt: torch.Tensor, n_tokens: int) -> tuple[list[int], list[float]]:
    """Return what `generate` writes, and when each token was handed to its streamer."""
    clock = _Clock()
    settings = {"max_new_tokens": n_tokens, "do_sample": False, "pad_token_id": 0, "streamer": clock}
    text = model.generate(prompt[None], attention_mask=torch.ones(1, len(prompt), dtype=torch.long), **settings)
    return text[0, len(prompt) :].tolist(), clock.times[1:]  # the prompt is handed over first


class _Clock:
    """A streamer, as `generate` takes it, that keeps only the time."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        pass


@torch.inference_mode()
def prefill_seconds(ours: NanoLM, theirs: Any, length: int, repetitions: int) -> dict[str, list[float]]:
    """Return, for both, the seconds of one pass over `length` prompt tokens that fills a cache."""
    tokens = torch.randint(ours.config.vocab_size, (1, length), generator=torch.Generator().manual_seed(1))
    return take_turns(
        {
            "nanolm": lambda: ours(tokens, ours.new_cache(capacity=length), last=1),
            "transformers": lambda: theirs(tokens, use_cache=True, logits_to_keep=1),
        },
        repetitions,
    )


def rates(name: str, n_tokens: int, seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Return tokens a second of both by the median time, their ratio, and the times."""
    ours, theirs = (statistics.median(seconds[library]) for library in ("nanolm", "transformers"))
    return {
        "what": name,
        "nanolm_tokens_per_second": n_tokens / ours,
        "transformers_tokens_per_second": n_tokens / theirs,
        "ratio": theirs / ours,
        "seconds": {library: seconds[library] for library in ("nanolm", "transformers")},
    }


def measure(model: str, quick: bool) -> dict[str, Any]:
    """Return all figures as one dictionary of plain numbers."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    folder, n_tokens, repetitions = find_folder(model), 16 if quick else 128, 2 if quick else 15
    ours, _ = nanolm.load(folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    about = {**machine.describe(), "transformers": transformers.__version__}
    counted = count(ours, folder, PROMPT_TOKENS + n_tokens // 2)
    predicted = predict(counted)
    decoded = decode_seconds(ours, theirs, n_tokens, repetitions)
    lengths = [n for n in PREFILL_LENGTHS if n <= ours.config.max_positions][: 2 if quick else None]
    prefills = {n: prefill_seconds(ours, theirs, n, repetitions) for n in lengths}
    return {
        "machine": about,
        "setting": {"model": model, "new_tokens": n_tokens, "repetitions": repetitions, "dtype": "float32"},
        "counted": counted,
        "predicted": predicted,
        "same_text": decoded["same_text"],
        "rows": [
            rates(f"decode, {n_tokens} tokens", 1, decoded),
            *[rates(f"prefill, {n} tokens", n, seconds) for n, seconds in prefills.items()],
        ],
    }


def notes_of(figures: dict[str, Any]) -> list[str]:
    """Return what stands above the table."""
    counted, predicted, n_rounds = figures["counted"], figures["predicted"], figures["setting"]["repetitions"]
    micro = {name: 1e6 * predicted[f"{name}_seconds"] for name in ("reading", "arithmetic", "operations")}
    bandwidth, n_operations = predicted["bandwidth_bytes_per_second"] / 1e9, counted["torch_operations"]
    agree = "The texts are the same." if figures["same_text"] else "The texts are NOT the same."
    return [
        f"{machine.one_line(figures['machine'])}, transformers {figures['machine']['transformers']}.",
        f"Counted: a decode step reads {counted['weight_bytes'] / 1e6:.2f} MB of weights and "
        f"{counted['cache_bytes'] / 1e6:.2f} MB of cache, {micro['reading']:.0f} µs at {bandwidth:.0f} GB/s, and does "
        f"{counted['flops'] / 1e6:.1f} million operations, {micro['arithmetic']:.0f} µs: at most "
        f"{1e6 / max(micro['reading'], micro['arithmetic']):,.0f} tokens/s. It asks torch "
        f"{n_operations} times; if no answer took longer than the smallest one, "
        f"{1e6 * predicted['operation_seconds']:.2f} µs, that alone would allow "
        f"{1e6 / micro['operations']:,.0f} tokens/s.",
        f"Float32, batch 1, greedy without end token, medians of {n_rounds} rounds in which both take turns. {agree}",
    ]


def rows_of(figures: dict[str, Any]) -> list[list[str]]:
    """Return the table's cells."""
    kinds = ("nanolm_tokens_per_second", "transformers_tokens_per_second")
    return [[row["what"], *[f"{row[kind]:,.0f}" for kind in kinds], f"{row['ratio']:.2f}"] for row in figures["rows"]]


def main(
    model: Annotated[str, typer.Option(help="A shipped model or a folder.")] = "target",
    threads: Annotated[int, typer.Option(help="Threads for both; a step this small gains nothing from more.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, to see that it runs.")] = False,
    card: Annotated[bool, typer.Option("--card", help="Write the table into the model card.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Measure decode and prefill of NanoLM and of transformers on the same checkpoint."""
    torch.set_num_threads(threads)
    figures = measure(model, quick)
    head = ["tokens/s", "NanoLM", "transformers", "ratio"]
    notes, rows = notes_of(figures), rows_of(figures)
    report.show("NanoLM and transformers", notes, head, rows)
    print(report.save("decode", figures, results))
    if card:
        report.write_section("speed", ["Made by `python -m benchmarks.decode --card`.", *notes], head, rows)


if __name__ == "__main__":
    typer.run(main)
