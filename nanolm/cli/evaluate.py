"""The command `nanolm eval`: what a model loses in fewer bits, on a text of ours and on the worked problems."""

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from .options import BAD_MODEL, BAD_REQUEST, Device, Json, one_line, print_json

if TYPE_CHECKING:
    from ..model.decoder import NanoLM
    from ..text.tokenizer import Tokenizer

KINDS = ("float32", "bfloat16", "int8", "int4")
_WINDOW = 512  # tokens that are read together, each window without a past

Model = Annotated[str, typer.Argument(help="A shipped model, a folder, a GGUF file, or smollm2.")]
Kinds = Annotated[list[str] | None, typer.Option("--weights", help="May be repeated; all kinds if left out.")]
Problems = Annotated[int, typer.Option(min=1, max=400, help="How many of the 400 worked problems.")]


def evaluate(
    model: Model = "target",
    weights: Kinds = None,
    problems: Problems = 100,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Measure a model in each kind of weights: perplexity on a text, and worked problems that it solves."""
    with one_line(BAD_REQUEST):
        for kind in weights or ():
            if kind not in KINDS:
                raise ValueError(f"weights is {kind!r}; it must be one of {', '.join(KINDS)}")
    with one_line(BAD_MODEL):
        from ..checkpoint.loading import SHIPPED, load

        passage = (SHIPPED / "passage.txt").read_text(encoding="utf-8")
        asked = json.loads((SHIPPED / "problems.json").read_text(encoding="utf-8"))
        some = [asked[i * len(asked) // problems] for i in range(problems)]  # of every kind
        how = (
            "Perplexity and bits of a text of 1,700 characters; worked problems solved, and the nats of their answers."
        )
        table = Table(title=model, caption=how, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
        for head in ("weights", "MB", "perplexity", "bits a byte", "solved", "nats a token"):
            table.add_column(head, justify="left" if head == "weights" else "right", no_wrap=True)
        kinds = track(weights or KINDS, model, console=Console(stderr=True), transient=True)
        rows = {kind: figures(*load(model, device, weights=kind), passage, some) for kind in kinds}
    if as_json:
        return print_json({"model": model, "problems": problems, "weights": rows})
    for kind, row in rows.items():
        cells = (f"{row['bytes'] / 1e6:,.1f}", f"{row['perplexity']:.3f}", f"{row['bits_per_byte']:.4f}")
        table.add_row(kind, *cells, f"{row['solved']} of {problems}", f"{row['nats_per_token']:.4f}")
    Console().print(table)


def figures(model: "NanoLM", tokenizer: "Tokenizer", passage: str, asked: list[dict[str, Any]]) -> dict[str, float]:
    """Return a model's bytes, its perplexity and bits a byte on a text, problems solved, nats of their tokens."""
    from ..model.quantize import model_bytes

    nats, n_tokens = text_nats(model, tokenizer, passage)
    solved, per_token = on_problems(model, tokenizer, asked)
    return {
        "bytes": model_bytes(model),
        "perplexity": math.exp(nats / n_tokens),
        "bits_per_byte": nats / math.log(2) / len(passage.encode("utf-8")),
        "solved": solved,
        "nats_per_token": per_token,
    }


def text_nats(model: "NanoLM", tokenizer: "Tokenizer", text: str) -> tuple[float, int]:
    """Return the nats of a text's tokens, and how many there are; windows of 512 tokens, each without a past.

    Perplexity is e to the nats a token, and differs between models for their tokenizers alone; bits a byte do not.
    """
    ids = tokenizer.encode(text)
    length = min(_WINDOW, model.config.max_positions) - 1
    rows = [ids[i : i + length] for i in range(0, len(ids), length)]
    return sum(sum(_nats(model, [], row)[0]) for row in rows), len(ids) - _n_unscored(model, rows)


def on_problems(model: "NanoLM", tokenizer: "Tokenizer", asked: list[dict[str, Any]]) -> tuple[int, float]:
    """Return how many answers greedy decoding writes exactly, and the mean nats of an answer's token.

    Greedy text equals the answer if and only if, with the answer given, the largest logit before each of its tokens is
    that token: so one pass a problem decides, and nothing needs to be generated.
    """
    solved, nats = 0, []
    for problem in asked:
        prompt, answer = tokenizer.encode(problem["prompt"]), tokenizer.encode(problem["answer"])
        of_tokens, is_likeliest = _nats(model, prompt, answer)
        solved += all(is_likeliest)
        nats += of_tokens
    return solved, sum(nats) / len(nats)


def _nats(model: "NanoLM", past: list[int], ids: list[int]) -> tuple[list[float], list[bool]]:
    """The nats of each token of ids, and whether it was the likeliest; one that nothing precedes is out."""
    import torch

    from ..text.detokenizer import after_start

    row = after_start([*past, *ids], model.config)
    scored = min(len(ids), len(row) - 1)
    if scored < 1:
        return [], []
    with torch.inference_mode():
        logits = model(torch.tensor([row[:-1]], device=model.device), last=scored)[0].double().log_softmax(-1)
    targets = torch.tensor(row[-scored:], device=model.device)
    found = logits.gather(-1, targets[:, None])[:, 0]
    return (-found).tolist(), (logits.argmax(-1) == targets).tolist()


def _n_unscored(model: "NanoLM", rows: list[list[int]]) -> int:
    """How many tokens have nothing before them: the first of each window, unless a start token comes before it."""
    return 0 if model.config.bos_token_id is not None else len(rows)
