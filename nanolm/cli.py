"""The command `nanolm`: write a text, or look at a model.

It turns options into calls and results into tables; all the work is done elsewhere. Torch takes seconds to import, so
whatever needs it is imported inside the commands: `nanolm --help` answers at once.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from .cli_bench import bench
from .cli_size import size

if TYPE_CHECKING:
    from .drafts import PromptLookupDraft
    from .model import NanoLM
    from .speculative import SpecDecodeStats
    from .tokenizer import Tokenizer

# Read by torch at import: threads that wait for work asleep, not spinning, leave a busy machine usable.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

PROMPT_LOOKUP = "prompt-lookup"
BAD_MODEL, BAD_REQUEST = 1, 2  # exit codes

_SAMPLING, _SPECULATION, _MACHINE = "Choosing each token", "Speculation", "Machine"

Prompt = Annotated[str, typer.Argument(help="The text to continue.", show_default=False)]
Model = Annotated[str, typer.Option("--model", "-m", help="The model that writes.")]
NewTokens = Annotated[int, typer.Option("--max-new-tokens", "-n", help="Stop after this many tokens.")]
Stats = Annotated[bool, typer.Option("--stats", help="Print speed and counts afterwards, to stderr.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy, 1 as the model says.", rich_help_panel=_SAMPLING)]
TopK = Annotated[int | None, typer.Option(help="Keep the k likeliest tokens.", rich_help_panel=_SAMPLING)]
TopP = Annotated[float | None, typer.Option(help="Keep the fewest that reach p.", rich_help_panel=_SAMPLING)]
Seed = Annotated[int | None, typer.Option(help="Makes the text repeatable.", rich_help_panel=_SAMPLING)]
Draft = Annotated[
    str | None,
    typer.Option(help=f"What guesses ahead: a model, or {PROMPT_LOOKUP}.", rich_help_panel=_SPECULATION),
]
Gamma = Annotated[int, typer.Option(help="Tokens guessed a round, with --draft.", rich_help_panel=_SPECULATION)]
CacheNumbers = Annotated[
    Literal["float", "int8", "float8"], typer.Option(help="Numbers in the KV cache.", rich_help_panel=_MACHINE)
]
Device = Annotated[str, typer.Option(help="cpu, cuda or mps.", rich_help_panel=_MACHINE)]
NumberType = Annotated[
    Literal["float32", "bfloat16", "float16"], typer.Option(help="Number type to run in.", rich_help_panel=_MACHINE)
]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="NanoLM, a small engine for LLM inference. A model is a shipped one (target, draft, mixture) or a "
    "folder in the Hugging Face layout of a Llama or a Mixtral.",
)


@app.command()
def generate(
    prompt: Prompt,
    model: Model = "target",
    max_new_tokens: NewTokens = 200,
    stats: Stats = False,
    temperature: Temperature = 0.7,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    draft: Draft = None,
    gamma: Gamma = 4,
    device: Device = "cpu",
    dtype: NumberType = "float32",
    cache_kind: CacheNumbers = "float",
) -> None:
    """Continue PROMPT, printing the new text as it is made."""
    with _one_line(BAD_REQUEST):
        from .dice import Dice
        from .sampling import Sampling

        _check(prompt, gamma, seed, draft, cache_kind)
        sampling, dice = Sampling(temperature, top_k, top_p), Dice(seed)
    target, tokenizer = _load(model, device, dtype)
    guesser = None if draft is None else _load_draft(draft, tokenizer, device, dtype)
    with _one_line(BAD_REQUEST):
        from .drafts import speculate

        ids, writer, counts = _ids(prompt, target, tokenizer), Writer(tokenizer, target.config.eos_token_ids), None
        if guesser is None:
            target.generate(ids, max_new_tokens, sampling, dice, writer.write, cache_kind)
        else:
            request = (ids, max_new_tokens, gamma, sampling, dice)
            _, counts = speculate(target, guesser, *request, on_round=lambda done: writer.write(done.tokens))
    print()
    if stats:
        Console(stderr=True).print(writer.table(counts))


@app.command()
def info(model: Annotated[str, typer.Argument(help="The model to look at.")] = "target") -> None:
    """Show a model's shape, and the bytes of its weights and cache in each number type."""
    loaded, tokenizer = _load(model, "cpu", "float32")
    from .checkpoint import find_folder

    folder = find_folder(model)
    Console().print(_shape_table(model, folder, loaded, tokenizer), _bytes_table(folder, loaded))


app.command()(size)
app.command()(bench)


class Writer:
    """Prints tokens as text while they come, up to the first end token, and keeps the time.

    Attributes:
        n_tokens: tokens so far, the end token included.
        first: seconds until the first tokens, and how many came at once; None before.
    """

    def __init__(self, tokenizer: "Tokenizer", end_tokens: Sequence[int]) -> None:
        from tokenizers.decoders import DecodeStream

        # Not Tokenizer.decode_stream, which asks for the next token: here the engine hands them over.
        self._inner, self._stream = tokenizer.inner, DecodeStream(skip_special_tokens=True)
        self._end_tokens, self.n_tokens = end_tokens, 0
        self._start = self._latest = time.perf_counter()
        self.first: tuple[float, int] | None = None

    def write(self, tokens: Sequence[int]) -> None:
        """Print the tokens of one pass; what stands behind an end token is not part of the text."""
        for token in tokens:
            self.n_tokens += 1
            if token in self._end_tokens:
                break
            print(self._stream.step(self._inner, token) or "", end="", flush=True)
        self._latest = time.perf_counter()
        if self.first is None:
            self.first = self._latest - self._start, self.n_tokens

    def table(self, counts: "SpecDecodeStats | None") -> Table:
        """Return speed and counts as a table; `counts` is what `speculate` returned, None without it."""
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_row("tokens", str(self.n_tokens))
        if self.first is not None:
            seconds, at_once = self.first
            table.add_row("time to first token", f"{1000 * seconds:.1f} ms")
            if self.n_tokens > at_once:
                rate = (self.n_tokens - at_once) / (self._latest - self._start - seconds)
                table.add_row("speed after it", f"{rate:,.0f} tokens/s")
            table.add_row("tokens a pass", f"{1 if counts is None else counts.tokens_per_target_forward:.2f}")
        if counts is not None and counts.examined:
            table.add_row("acceptance rate", f"{counts.acceptance_rate:.2f} ({counts.accepted} of {counts.examined})")
        return table


@contextmanager
def _one_line(exit_code: int) -> Iterator[None]:
    """Turn an error that the engine explains into one line on stderr and the exit code."""
    try:
        yield
    except (ValueError, OSError) as error:
        line = " ".join(str(error).split())
        Console(stderr=True, soft_wrap=True).print(f"nanolm: {line}", markup=False, highlight=False)
        raise typer.Exit(exit_code) from None


def _check(prompt: str, gamma: int, seed: int | None, draft: str | None, cache_kind: str) -> None:
    if not prompt:
        raise ValueError("prompt is empty; give at least one character to continue")
    if any("\ud800" <= character <= "\udfff" for character in prompt):
        raise ValueError("prompt is not valid UTF-8 text")
    if gamma < 0:
        raise ValueError(f"gamma is {gamma}; a round guesses 0 or more tokens")
    if seed is not None and not 0 <= seed < 2**63:
        raise ValueError(f"seed is {seed}; it must be from 0 to 2**63 - 1")
    if draft is not None and cache_kind != "float":
        raise ValueError(f"cache-kind is {cache_kind!r}; with a draft it must be 'float'")


def _load(name: str, device: str, dtype: str) -> "tuple[NanoLM, Tokenizer]":
    import torch

    with _one_line(BAD_REQUEST):
        cuda = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        devices = ["cpu", *(["cuda", *cuda] if cuda else []), *(["mps"] if torch.backends.mps.is_available() else [])]
        if device not in devices:
            raise ValueError(f"device is {device!r}; this machine has {', '.join(devices)}")
    with _one_line(BAD_MODEL):
        from .checkpoint import load

        return load(name, device, getattr(torch, dtype))


def _load_draft(name: str, tokenizer: "Tokenizer", device: str, dtype: str) -> "NanoLM | PromptLookupDraft":
    from .drafts import PromptLookupDraft

    if name == PROMPT_LOOKUP:
        return PromptLookupDraft(tokenizer.vocab_size)
    draft, its_tokenizer = _load(name, device, dtype)
    with _one_line(BAD_REQUEST):
        if its_tokenizer.inner.get_vocab() != tokenizer.inner.get_vocab():
            raise ValueError(f"draft {name!r} has another vocabulary than the model; both must number the same tokens")
    return draft


def _ids(prompt: str, model: "NanoLM", tokenizer: "Tokenizer") -> list[int]:
    """The prompt's tokens, behind the start token where the model has one: so began every text it was trained on."""
    start = model.config.bos_token_id
    return [*([] if start is None else [start]), *tokenizer.encode(prompt)]


def _shape_table(name: str, folder: Path, model: "NanoLM", tokenizer: "Tokenizer") -> Table:
    from safetensors import safe_open

    config, file = model.config, folder / "model.safetensors"
    with safe_open(file, "pt") as tensors:
        stored = ", ".join(sorted({tensors.get_slice(name).get_dtype() for name in tensors.keys()}))  # noqa: SIM118
    ends = ", ".join(repr(tokenizer.inner.id_to_token(token)) for token in config.eos_token_ids)
    rows = {
        "layers": f"L = {config.n_layers}",
        "model width": f"D = {config.d_model}",
        "heads": f"N = {config.n_heads} of queries, K = {config.n_kv_heads} of keys and values, H = {config.head_dim}",
        "feed-forward width": f"F = {config.d_ff}",
        **({"experts": f"E = {config.n_experts}, k = {config.experts_per_token} a token"} if config.n_experts else {}),
        "vocabulary": f"V = {config.vocab_size:,}",
        "embedding and head": "one matrix" if config.tie_embeddings else "a matrix each",
        "end tokens": ends or "none",
        "context": f"{config.max_positions:,} tokens",
        "parameters": f"{sum(weight.numel() for weight in model.parameters()):,}",
        "weights on disk": f"{file.stat().st_size:,} bytes, {stored}",
    }
    table = Table(title=name, show_header=False, title_justify="left", title_style="bold")
    for row in rows.items():
        table.add_row(*row)
    return table


def _bytes_table(folder: Path, model: "NanoLM") -> Table:
    """Bytes in memory by number type; int8 and int4 without their scales."""
    from .budget import kv_bytes_per_token, weight_bytes
    from .shapes import ModelShape

    shape, context = ModelShape.from_config(folder), model.config.max_positions
    n_params = sum(weight.numel() for weight in model.parameters())
    table = Table(title="Bytes in memory", title_justify="left", title_style="bold")
    for head in ("numbers", "weights", "cache, a token", f"cache, {context:,} tokens"):
        table.add_column(head, justify="left" if head == "numbers" else "right")
    for numbers, bits in (("float32", 32), ("float16, bfloat16", 16), ("int8", 8), ("int4", 4)):
        a_token = kv_bytes_per_token(shape, bits)
        table.add_row(numbers, *(f"{n:,}" for n in (weight_bytes(n_params, bits), a_token, a_token * context)))
    return table
