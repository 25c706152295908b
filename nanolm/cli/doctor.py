"""The command `nanolm doctor MODEL`: what was read of a model's files, what was inferred, and whether others agree."""

from contextlib import nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .info import besides, n_params
from .options import BAD_MODEL, Json, one_line, print_json

if TYPE_CHECKING:
    from ..checkpoint.weight_layout import Source
    from ..model.decoder import NanoLM

TOLERANCE = 1e-3  # between logits in float32; sums are taken in another order, and grow with the number of layers
DISAGREES = 3  # exit code
_TEXT = "The harbour was quiet, and 12 boats lay in a row: the oldest of them had been painted twice, in 1987 and 2003."
_N_NEW = 16

Model = Annotated[str, typer.Argument(help="A shipped model, a folder, a GGUF file, or smollm2.")]
Compare = Annotated[
    bool, typer.Option("--compare/--no-compare", help="Also run it in transformers, if that is installed.")
]


def doctor(model: Model = "target", compare: Compare = True, as_json: Json = False) -> None:
    """Say what of MODEL's files was read, what was inferred, what it takes, and whether transformers agrees."""
    with one_line(BAD_MODEL):
        from ..checkpoint.loading import opened

        with opened(model) as source:
            found: dict[str, Any] = {"read": read(source), "inferred": inferred(source), "memory": memory(source)}
        if not as_json:
            Console().print(*(_table(name.capitalize(), rows) for name, rows in found.items()))
        with Console(stderr=True).status("asking transformers") if compare else nullcontext():
            compared = _compared(source) if compare else {}
    if as_json:
        print_json({"model": model, **found, "transformers": compared or None})
    elif compared:
        Console().print(_said(compared), soft_wrap=True, highlight=False)
    if compared.get("agrees") is False:
        raise typer.Exit(DISAGREES)


def _compared(source: "Source") -> dict[str, Any]:
    """Whether transformers agrees, or why it was not asked."""
    reason = not_compared(source)
    if reason:
        return {"not compared": reason}
    largest, same_text = agreement(source)
    agrees = largest <= TOLERANCE and same_text
    return {"agrees": agrees, "largest difference of logits": largest, "same greedy text": same_text, "tokens": _N_NEW}


def _said(compared: dict[str, Any]) -> str:
    if "not compared" in compared:
        return f"Not compared with transformers: {compared['not compared']}."
    text = "writes the same greedy text" if compared["same greedy text"] else "writes ANOTHER greedy text"
    return (
        f"transformers {'agrees' if compared['agrees'] else 'DISAGREES'}: logits differ by "
        f"{compared['largest difference of logits']:.1e} at most, and it {text}, {_N_NEW} tokens."
    )


def read(source: "Source") -> dict[str, str]:
    """Return what the files say outright."""
    config, kinds = source.config, sorted(set(source.kinds.values()))
    family = source.entries.get("model_type") or source.entries.get("general.architecture", "llama")
    return {
        "from": str(source.path),
        "family": str(family),
        "weights": f"{len(source.shapes):,} tensors, {', '.join(kinds)}, {source.stored_bytes:,} bytes in "
        f"{source.n_files} file{'s' if source.n_files > 1 else ''}",
        "parameters": f"{n_params(config):,}",
        "shape": f"{config.n_layers} layers, width {config.d_model}, {config.n_heads} heads, {config.n_kv_heads} of "
        f"keys and values, {config.head_dim} numbers each, feed-forward {config.d_ff}",
        "positions turn by": f"theta = {config.rope_theta:,.0f}, context {config.max_positions:,}",
        **besides(config),
        "vocabulary": f"{config.vocab_size:,} rows, {source.tokenizer.vocab_size:,} tokens",
        "chat template": f"{len(source.tokenizer.chat):,} characters of Jinja" if source.tokenizer.chat else "none",
    }


def inferred(source: "Source") -> "dict[str, str]":
    """Return what the files leave to their reader, and how it was read."""
    from ..text.chat import RenderedChat, chat_template

    config, entries, tokenizer = source.config, source.entries, source.tokenizer
    name = tokenizer.inner.id_to_token
    found: dict[str, str] = {}
    for key, value in (
        ("num_key_value_heads", config.n_kv_heads),
        ("head_dim", config.head_dim),
        ("rms_norm_eps", config.norm_eps),
    ):
        if source.path.is_dir() and entries.get(key) is None:
            found[key] = f"{value}; config.json leaves it out"
    said = entries.get("bos_token_id")
    if config.bos_token_id is not None:
        found["texts begin with"] = f"{name(config.bos_token_id)!r}, which the tokenizer puts there"
    elif said is not None:
        found["texts begin with"] = f"nothing; config.json names token {said}, which the tokenizer does not put there"
    else:
        found["texts begin with"] = "nothing"
    found["texts end with"] = ", ".join(repr(name(token)) for token in config.eos_token_ids) or "nothing: at the limit"
    template = chat_template(tokenizer)
    if not isinstance(template, RenderedChat):
        found["a conversation is laid out as"] = f"{type(template).__name__}; the files have no template"
    if config.tie_embeddings:
        found["head"] = "the embedding's matrix"
    ignored = [each for each in source.shapes if each.endswith(source.layout.ignored or ("\0",))]
    if ignored:
        found["buffers left out"] = f"{len(ignored)}, such as {ignored[0]}: they follow from the configuration"
    return found


def memory(source: "Source") -> dict[str, str]:
    """Return what the model takes by kind of weights, and this machine's memory."""
    from ..checkpoint.memory import loading_bytes, machine_bytes, resident_bytes

    kinds = ("float32", "bfloat16", "int8", "int4")
    sizes = {kind: (resident_bytes(source.config, kind), loading_bytes(source.config, kind)) for kind in kinds}
    there = machine_bytes()
    return {
        **{kind: f"{size:,} bytes, up to {peak:,} while loading" for kind, (size, peak) in sizes.items()},
        "this machine": "not known" if there is None else f"{there:,} bytes",
    }


def not_compared(source: "Source") -> str:
    """Return why transformers is not asked, "" if it can be."""
    from ..checkpoint.memory import machine_bytes, resident_bytes

    needed = ["transformers", *(["accelerate"] if source.path.is_file() else [])]  # its reader of GGUF asks for that
    lacking = [name for name in needed if find_spec(name) is None]
    if lacking:
        return f"{', '.join(lacking)} is not installed"
    there, twice = machine_bytes(), 2 * resident_bytes(source.config)
    return f"both models together take {twice:,} bytes" if there is not None and twice > there else ""


def agreement(source: "Source") -> tuple[float, bool]:
    """Return the largest difference of two logits on a short text, and whether both write the same greedy text."""
    import torch
    import transformers

    from ..checkpoint.loading import load
    from ..text.detokenizer import after_start

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model, tokenizer = load(source.path)
    ids = after_start(tokenizer.encode(_TEXT), model.config)[: model.config.max_positions - _N_NEW]
    where: dict[str, Any] = {"gguf_file": source.path.name} if source.path.is_file() else {}
    folder = source.path.parent if source.path.is_file() else source.path
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **where).eval()
    with torch.inference_mode():
        largest = (theirs(torch.tensor([ids])).logits - model(torch.tensor([ids]))).abs().max().item()
    return largest, _greedy(model, ids) == _their_greedy(theirs, ids)


def _greedy(model: "NanoLM", ids: list[int]) -> list[int]:
    from ..sampling.params import SamplingParams

    return model.generate(ids, _N_NEW, SamplingParams(temperature=0.0, end_tokens=()))  # pyright: ignore[reportReturnType]


def _their_greedy(theirs: Any, ids: list[int]) -> list[int]:
    import torch

    row = torch.tensor([ids])
    how = {"max_new_tokens": _N_NEW, "min_new_tokens": _N_NEW, "do_sample": False, "pad_token_id": 0}
    return theirs.generate(row, attention_mask=torch.ones_like(row), **how)[0, len(ids) :].tolist()


def _table(title: str, rows: dict[str, str]) -> Table:
    table = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    for name, value in rows.items():
        table.add_row(name, value)
    return table
