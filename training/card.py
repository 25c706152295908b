"""The model card's figures: `python -m training.card` measures the shipped pair and writes them between the markers.

It also writes beside the card what the course needs to measure without the plays: the held-out problems and a sample
of held-out problem documents. Prose outside the markers is never touched.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from nanolm import checkpoint

from .figures import PROBLEMS_PER_KIND, TEMPERATURES, held_out_documents, measure
from .state import save_json, write_atomically
from .texts.problems import KINDS, held_out_problems
from .train import HERE, SHIPPED


def replace_section(card: str, name: str, text: str) -> str:
    """The card with `text` between <!-- name --> and <!-- /name -->.

    Raises:
        ValueError: the markers are missing, doubled or in the wrong order.
    """
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    if card.count(opening) != 1 or card.count(closing) != 1 or card.index(opening) > card.index(closing):
        raise ValueError(f"card: needs the markers {opening} and {closing} once each, in this order")
    before, rest = card.split(opening)
    return f"{before}{opening}\n{text.strip()}\n{closing}{rest.split(closing)[1]}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, its first column left-aligned and the others right-aligned."""
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def render(figures: dict[str, Any], curves: dict[str, dict[str, Any]]) -> str:
    """The figures as Markdown. `curves` holds the two runs' curves as `training.train` saves them."""
    pair = [figures["target"], figures["draft"]]
    runs = [curves["target"], curves["draft"]]
    rows = [
        ["parameters", *[f"{model['parameters']:,}" for model in pair]],
        ["layers × width", *[f"{model['shape']['n_layers']} × {model['shape']['d_model']}" for model in pair]],
        ["tokens trained on", *[f"{run['tokens']:,}" for run in runs]],
        ["taught by", *["the target" if run["recipe"]["distilled"] else "the text" for run in runs]],
        ["training time, minutes", *[f"{run['seconds'] / 60:.0f}" for run in runs]],
        ["bits per byte, held-out plays", *[f"{model['bits_per_byte_plays']:.3f}" for model in pair]],
        ["bits per byte, held-out problems", *[f"{model['bits_per_byte_problems']:.3f}" for model in pair]],
        *[[f"solved: {kind}", *[f"{model['accuracy'][kind]:.1%}" for model in pair]] for kind in (*KINDS, "all")],
    ]
    places = {"plays": "held-out plays", "problems": "held-out problems", "written": "text the target writes"}
    kept = [
        [text, *[f"{figures['acceptance'][place][str(t)]:.3f}" for t in TEMPERATURES]] for place, text in places.items()
    ]
    held_out = figures["held_out"]
    return "\n\n".join(
        [
            table(["", "target", "draft"], rows),
            f"Held out: {held_out['play_tokens']:,} tokens of plays, {held_out['problem_tokens']:,} tokens of problem "
            f"documents, {held_out['problems']} single problems.",
            "Acceptance, the mean chance that the target keeps the draft's token:",
            table(["", *[f"temperature {t:g}" for t in TEMPERATURES]], kept),
            "What the target writes at temperature 0.8. Each prompt is the first line or lines; digits are drawn like "
            "words, so a wrong one can come out where greedy decoding is right:",
            *[f"```text\n{text.strip()}\n```" for text in figures["samples"]],
        ]
    )


def main() -> None:
    """Measure, then write the card's figures, figures.json, problems.json and problem_documents.json."""
    try:
        (target, tokenizer), (draft, _) = checkpoint.load(SHIPPED / "target"), checkpoint.load(SHIPPED / "draft")
        curves = {
            name: json.loads((HERE / "curves" / f"{name}.json").read_text(encoding="utf-8"))
            for name in ("target", "draft")
        }
        figures = measure(target, draft, tokenizer)
        path = SHIPPED / "README.md"
        card = replace_section(path.read_text(encoding="utf-8"), "figures", render(figures, curves))
    except (ValueError, FileNotFoundError, ModuleNotFoundError) as error:
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
        sys.exit(2)
    asked = [{k: v for k, v in asdict(p).items() if k != "key"} for p in held_out_problems(PROBLEMS_PER_KIND)]
    save_json(SHIPPED / "problems.json", asked)
    save_json(SHIPPED / "problem_documents.json", held_out_documents())
    save_json(SHIPPED / "figures.json", figures)
    write_atomically(path, lambda temporary: Path(temporary).write_text(card, encoding="utf-8"))


if __name__ == "__main__":
    typer.run(main)
